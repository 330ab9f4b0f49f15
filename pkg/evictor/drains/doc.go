// Package drains carries out DeviceDrains. What comes next in a drain [drain.Decide]
// decides, from the objects in the stores of the informers; a [Controller] writes the
// DeviceTaintRules, the status and the evictions, in this order: a pod stands in
// status.evicting before it is evicted, so that a controller that starts anew knows of it.
//
// One goroutine decides, drain by drain, so that two drains that share a pod do not evict
// it twice. Nothing is remembered but what the API objects say, and for seconds what the
// API server has answered.
package drains
