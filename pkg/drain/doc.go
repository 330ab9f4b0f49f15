// Package drain decides what comes next in a DeviceDrain: which rules cordon its devices,
// which pods are evicted now, what it waits for, and what its status says.
//
// It is pure. [Resolve] says which devices a drain is about; whoever calls finds out who
// holds them, and [Decide] takes that, the drain with the status it has, and the time,
// and returns a [Decision]. All that it remembers is in the status, so that a controller
// that is killed and starts anew decides the same: the pods that are about to be evicted
// stand in status.evicting before the API server is asked.
//
// A claim that outlives its pods (one that they name, share, or have through a PodGroup)
// is drained as one unit: the scheduler gives an allocated claim to the next pod without
// looking at taints, so that the devices are free only when the claim is deallocated.
package drain
