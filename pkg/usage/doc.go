// Package usage maps devices to the claims and pods that hold them, and counts what a taint
// would affect. It works incrementally: an [Index] receives every addition, update and
// deletion of a claim, pod or PodDisruptionBudget, by [Index.Listen] or by direct calls,
// and answers from that.
//
// A pod holds the devices of a claim if its spec names the claim, or the claim was made
// for it from a template or for its extended resources
// (status.extendedResourceClaimStatus), and the claim is reserved for it by UID, itself
// or through its PodGroup. This is the reading of the in-tree eviction controller, and
// extended resources, which that one overlooks.
package usage
