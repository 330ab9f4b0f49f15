// Package drain carries out DeviceDrains.
//
// [Decide] decides what comes next in a drain: which rules cordon its devices, which pods
// are evicted now, what it waits for, and what its status says. It is pure: [Resolve] names
// the devices of a drain, the [Controller] finds their holders, and Decide takes these, the
// drain with its status, and the time. All that it remembers is in the status, so that a
// controller that restarts decides the same: a pod is listed in status.evicting before the
// API server is asked to evict it.
//
// The [Controller] reads the stores of the informers and writes the DeviceTaintRules, the
// status and the evictions, in this order. One goroutine decides, drain by drain, so that
// two drains that share a pod do not evict it twice.
//
// A claim that outlives its pods (one that they name, share, or have through a PodGroup)
// is drained as one unit: the scheduler gives an allocated claim to the next pod without
// looking at taints, so the devices are free only when the claim is deallocated.
package devicedrain
