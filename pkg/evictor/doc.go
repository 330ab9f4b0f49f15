// Package evictor decides which pods have to leave their devices, when and why.
//
// A device is taken out of use by a taint with the effect NoExecute, which its driver
// publishes in a ResourceSlice or an admin sets by a DeviceTaintRule (KEP-5055). Pods
// reach devices through claims: those in their spec, those made from templates, and
// the one that the scheduler makes for extended resources. [Decide] takes one
// allocated claim and the taints of its devices and returns a [Verdict]: the earliest
// time at which a taint is no longer tolerated, with every reason in a stable order.
// [DecidePod] merges the verdicts of all claims of a pod, and says which pods are
// spared whatever their claims say. Both are pure: objects and the time go in, a value
// comes out.
//
// A [Controller] acts on the decisions. Its event handlers only note which pods may be
// concerned; one goroutine decides about them, from the newest objects in the stores of
// the informers and in the tracker, and keeps a time-ordered agenda and counts per
// DeviceTaintRule; workers make two calls for a pod, a condition and the deletion, both
// for the UID that was decided about, at a limited rate. A [Mode] says what part of the
// decisions is for it to carry out: nothing, what kube-controller-manager misses, or
// everything.
//
// The semantics are those of the controller in Kubernetes 1.37
// (k8s.io/kubernetes/pkg/controller/devicetainteviction) but for its bugs; the tests
// named TestBug… say which and what is done instead.
package evictor
