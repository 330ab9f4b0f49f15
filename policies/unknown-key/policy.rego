# METADATA
# title: A workload tolerates a taint that does not exist
# description: |
#   The key of the toleration is in no taint of any ResourceSlice or DeviceTaintRule.
#   Mostly that is a typing mistake, and the pod is evicted although it was meant to stay.
#   It only warns: the taint may come later.
#   DRA-CLAIM-001 decides about requests with admin access, which allocate nothing.
# custom:
#   code: DRA-TOL-008
#   severity: low
#   mode: warn
#   strongest: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       keys:
#         type: array
#         items: {type: string}
#         default: [gpu.nvidia.com/gpu-lost, gpu.nvidia.com/unmonitored, gpu.nvidia.com/xid, gpu.intel.com/unhealthy, UnboundUnmanaged]
#         description: Keys that exist now and then only, such as those that drivers document and those of maintenance; "example.com/*" means all keys of a domain.
package dra.tolerations.unknown_key

deny contains violation if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.known == false
	not toleration.wildcard
	not toleration.key in input.parameters["DRA-TOL-008"].keys
	not toleration.domainKey in input.parameters["DRA-TOL-008"].keys
	violation := {
		"paths": toleration.paths,
		"field": "key",
		"message": concat("", ["no device has a taint with the key ", toleration.key]),
		"hint": "look for a typing mistake: 'kubectl get resourceslices,devicetaintrules -o yaml' shows the taints",
	}
}
