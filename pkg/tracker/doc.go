// Package tracker keeps one merged view of all devices of a cluster: the
// ResourceSlices as their drivers published them, with the values of
// ResourceSlicePatches (KEP-5027) and the taints of DeviceTaintRules (KEP-5055).
//
// The model is a single writer. Informers only note which object has changed, in a set
// without duplicates. One goroutine takes all that has gathered there, works it in, and
// publishes the result as an immutable [Snapshot] with one atomic store; then each
// event handler gets, from its own queue, what has changed since it last looked.
// Several changes of one slice become one event, whose old object is always the one
// that the handler saw before. Before all kinds have been read for the first time
// nothing is published: no device is ever shown without the taints that it has.
//
// A merged slice shares everything with the informer's object that is not changed:
// attributes, strings, node selectors. Nothing that a tracker returns may be changed.
//
// The taints of a device are those of its driver in their order, then those of rules in the
// order of the rules' names. [Device] has the source of each. As in the API, a rule without
// a selector matches no device, and one with an empty selector all of them.
//
// A [Tracker] needs only client-go. [Tracker.Informer] makes it a drop-in for code that was
// written for a ResourceSliceInformer. It writes nothing to the API server. It reports
// problems in [Tracker.Conditions] and to the logger.
package tracker
