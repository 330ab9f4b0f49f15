// Package oracle says which pods an eviction controller must evict, and which it must not,
// for a history of what was written to a cluster. It follows the text of KEP-5055 and uses
// no code of dra-steward:
//
//   - Only the effect NoExecute evicts pods, and all taints that are not tolerated apply
//     their effect. A DeviceTaintRule has the same effect as a taint in a slice.
//   - A toleration without an effect matches all effects, without a key all keys. Exists
//     matches all values; Equal is the default.
//   - A toleration with the effect NoExecute and tolerationSeconds tolerates the taint until
//     the time when the taint was added plus the seconds. Zero and negative values evict
//     immediately. The seconds of other tolerations are ignored.
//   - The controller deletes all affected pods eventually, and works again when the API
//     server is back.
//
// Where the text leaves it open, both outcomes are right: between the smallest and the
// largest seconds of several matching tolerations, and while a change is not yet observed.
package oracle
