// Package drainoracle finds what a controller of DeviceDrains did wrong, for a history of what was
// written to a cluster and the evidence of its API server. It follows the text of docs/drain.md, and
// uses no code of dra-steward:
//
//   - A drain evicts the pods that hold its devices, each once. It evicts no pods while it is paused,
//     after it was deleted, in a dry run, at its end, and after a deadline with the action Keep or Fail.
//     Pods without a controller stay unless podsWithoutController is Evict.
//   - Evictions honour PodDisruptionBudgets. Only a deadline with the action Delete deletes pods,
//     regardless of budgets and controllers. It deletes pods again that have more than an hour to end,
//     which the pods of a history do not.
//   - evictionsPerMinute limits the rate; maxPerNamespace and maxPerNode limit how many pods are being
//     evicted at the same time.
//   - The drain owns a DeviceTaintRule per device, and restores one that a user deletes or changes. The
//     first pod is evicted 10 s after the last rule was written. The rules are deleted with the drain, or
//     with atEnd Uncordon when it ends.
//   - A drain is Drained when no claim holds any of its devices, after evictions for five seconds.
//
// The text says nothing about a change of the leader, so that limits hold across it. What nothing
// observes yet, and what no leader works on, is not demanded: see [History].
package drainoracle
