// Package campaign runs random histories of taints, pods, claims and DeviceDrains on a real control
// plane while the replicas of "dra-steward controller" are killed, restarted and stopped for
// seconds and the API server is restarted. The package oracle says which pods have to be
// evicted from tainted devices, the package drainoracle what a drain does wrong; the audit log
// says which pods were evicted.
package campaign
