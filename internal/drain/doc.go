// Package drain decides what comes next in a DeviceDrain: which rules cordon its devices, which pods
// are evicted now, what it waits for, and what its status says.
//
// It knows no client and no clock. [Gather] finds the devices of a drain and their holders, and
// [Decide] takes these, the drain with its status, and the time. All that a drain remembers is in the
// status, so that a controller that restarts decides the same: a pod is listed in status.evicting
// before the API server is asked to evict it.
//
// A claim that outlives its pods (one that they name, share, or have through a PodGroup)
// is drained as one unit: the scheduler gives an allocated claim to the next pod without
// looking at taints, so the devices are free only when the claim is deallocated.
package drain
