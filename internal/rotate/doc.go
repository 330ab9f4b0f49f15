// Package rotate keeps the webhook's certificate in one Secret and its authority in the
// caBundle of the webhook configurations, without any other right: it reads and patches
// these three objects by name. What happens when is decided by package certificate; keys
// and certificates are made by client-go.
package rotate
