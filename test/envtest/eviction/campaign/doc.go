// Package campaign runs random histories of taints, pods and claims on a real control plane
// while the replicas of "dra-steward controller" are killed, restarted and stopped for
// seconds and the API server is restarted. The package oracle says which pods have to be
// evicted; the audit log says which were.
package campaign
