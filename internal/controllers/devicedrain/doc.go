// Package devicedrain is the controller of DeviceDrains.
//
// It gathers what package drain decides about from the stores of the informers, and writes
// the DeviceTaintRules, the status and the evictions, in this order. One goroutine decides, drain by
// drain, so that two drains that share a pod do not evict it twice.
package devicedrain
