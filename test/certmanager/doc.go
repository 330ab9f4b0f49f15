// Package certmanager has no code of its own: its tests hold what the chart renders with
// certificates.mode certManager against cert-manager itself: its API types, its
// definitions on a real API server, and its controllers, which issue, renew and inject.
package certmanager
