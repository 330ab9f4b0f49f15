// Package deployed installs the chart as it ships for replicas of the webhook that the caller runs: in
// its own process, or in others that can be killed.
//
// Only where things are differs from an installation: the webhook configurations name an address on
// loopback instead of a Service, and the certificate is made here.
package deployed
