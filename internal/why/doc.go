// Package why says why a claim is not satisfied: for each request and each device the
// first thing that keeps the device from being allocated.
//
// Two voices answer. Whether the claim can be allocated at all is asked of the allocator
// of kube-scheduler itself (k8s.io/dynamic-resource-allocation/structured), node by node;
// so the verdict is that of the scheduler. Why a single device is not for a request is
// found out here, in this order: its pool is being replaced or incomplete, its node is not
// one on which the pod may run, a selector of the class is false or fails, then one of the
// request, a taint is not tolerated, another claim has it.
//
// A [World] holds what is known. [World.Explain] is pure: it knows no client and no clock.
// What the asker may not read is not in the World, and a [Report] says that in its notes.
package why
