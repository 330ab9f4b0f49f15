// Package evictor decides which pods a tainted device evicts, when and why, and evicts them.
//
// A device is taken out of use by a taint with the effect NoExecute, which its driver
// publishes in a ResourceSlice or an admin sets with a DeviceTaintRule (KEP-5055). Pods
// hold devices through claims: those in their spec, those created from templates, and
// the one that the scheduler creates for extended resources. [Decide] takes one
// allocated claim and the taints of its devices and returns a [Verdict]: the earliest
// time at which a taint is no longer tolerated, with all reasons in a stable order.
// [DecidePod] merges the verdicts of all claims of a pod, and skips pods that no taint
// evicts. Both are pure functions of objects and a time.
//
// A [Controller] acts on the verdicts. Its event handlers only add pods to a queue. One
// goroutine decides about them from the tracker and the index of claims and pods, keeps
// a queue of evictions ordered by time, and counts per DeviceTaintRule. Workers make two
// API calls per pod, a status condition and a deletion, both with the pod's UID, at a
// limited rate. The [Mode] selects the evictions that the controller carries out: none,
// those that the in-tree controller misses, or all.
//
// To follow a taint to a deleted pod, read controller.go (events, queue), devices.go (the
// taints of a device), decide.go (the verdict), podstates.go (the state of a pod),
// breaker.go and window.go (counts and circuit breaker) and worker.go (rate and API calls).
//
// The semantics are those of the controller in Kubernetes 1.37
// (k8s.io/kubernetes/pkg/controller/devicetainteviction) except for its bugs. The tests
// named TestBug… list them, and what happens instead.
package evictor
