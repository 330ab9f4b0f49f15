// Package usage knows who holds which device: device -> claims -> pods, and what a
// taint would hit. It is kept incrementally: an [Index] is told of every claim, pod and
// PodDisruptionBudget that is new, has changed or is gone, by [Index.Listen] or by hand,
// and answers from what it has been told.
//
// A pod holds the devices of a claim if its spec names the claim, or the claim was made
// for it from a template or for its extended resources
// (status.extendedResourceClaimStatus), and the claim is reserved for it by UID, itself
// or through its PodGroup. This is the reading of the in-tree eviction controller, and
// extended resources, which that one overlooks.
package usage
