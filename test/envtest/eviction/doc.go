// Package eviction holds the tests of "dra-steward controller" on a real control plane:
// beside the eviction controller of kube-controller-manager, and without it. The
// program runs with the arguments and rights that the chart gives it; what it and
// others did is read from the audit log.
package eviction
