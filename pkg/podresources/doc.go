// Package podresources says which container holds which device on a node.
//
// The kubelet's PodResources API (KEP-3695) answers that question, but in Kubernetes
// 1.34 to 1.37 not correctly for Dynamic Resource Allocation:
//
//  1. The CDI ids of a device include those of the devices before it, of the same
//     driver in the same claim.
//  2. A container is listed with all devices of a claim, also of the requests that it
//     does not use.
//  3. A claim that no container refers to is not listed.
//     Nor are init containers that do not restart.
//  4. It has no UID of pod or claim, no request and no adminAccess.
//  5. After a restart the kubelet answers with an empty list, as if everything had
//     been released.
//
// [Client] asks the API, and tells 5 apart: see [Listing.Complete]. [Attribute] corrects
// the rest. It joins the answer with pods and claims of the API server and with the
// kubelet's checkpoint (package checkpoint), and works with whatever of these there is;
// each [Holding] says where it comes from and whether it is exact. [Server] answers
// with the corrected data, for agents that speak PodResources already.
package podresources
