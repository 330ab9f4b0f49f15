// Package placement answers where pods land, and why they do not, as kube-scheduler places
// them.
//
// A [Cluster] holds the objects of a cluster. [Cluster.Begin] makes a [Simulation] of it, which
// pods leave ([Simulation.Remove]) and in which pods are placed ([Simulation.Place]).
// [Cluster.Predict] does both for a [Change].
//
// Devices are allocated by the allocator of kube-scheduler itself
// (k8s.io/dynamic-resource-allocation/structured), node by node, with the feature gates of
// the cluster. Of a node these count: the pod's node selector and required affinity, taints,
// unschedulable, host ports, and requests of cpu, memory, pods and extended resources against
// what is allocatable. [Unseen] names what else a pod uses.
//
// kube-scheduler selects among suitable nodes by scores and by chance. Where that decides
// about a pod, its verdict is [Contested], and [Answer] has the least and the most pods that
// land.
//
// The package is pure: it knows no client and no clock, and changes no object that it is
// given. What [Cluster.Devices] returns is what package why asks about single claims.
package placement
