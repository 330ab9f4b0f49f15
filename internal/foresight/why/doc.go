// Package why explains why a pod or a claim waits for devices: the likely causes, what
// changes each of them, and for each request and each device the first reason against it.
//
// The verdict comes from the allocator of kube-scheduler itself
// (k8s.io/dynamic-resource-allocation/structured), which is asked node by node. The reason
// against a single device is found here, in this order: the class does not select it, its
// pool is being replaced or incomplete, the pod cannot run on its node, a selector of the
// request is false or fails, a taint is not tolerated, another claim has it.
//
// A cause is a hypothesis: the question is asked again with one thing changed, such as a
// taint removed or a smaller count. A change after which the allocator finds a node is
// sufficient. [Rank] puts the causes in order. The state of pods, events, quotas and
// PodGroups explains claims that do not exist, and pods that kube-scheduler does not
// process.
//
// A [Cluster] holds the objects. Its methods are pure: they know no client and no clock. What
// the user is not allowed to read is missing in the Cluster, and the notes of an [Explanation] name
// it.
package why
