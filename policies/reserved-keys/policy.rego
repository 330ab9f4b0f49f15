# METADATA
# title: A workload tolerates a taint that only the platform may ignore
# description: |
#   Drivers put taints on devices that are lost or unhealthy. A workload that tolerates such a
#   key gets the broken device, and blames the platform. Tolerations are not access
#   control by themselves: every editor of a namespace may write them. The keys listed
#   here are for the listed namespaces, users and groups. A toleration without a key
#   tolerates them, too.
#   DRA-CLAIM-001 decides about requests with admin access, which allocate nothing.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5055-dra-device-taints-and-tolerations
# custom:
#   code: DRA-TOL-002
#   severity: high
#   mode: warn
#   about: user
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       keys:
#         type: array
#         items: {type: string}
#         default: [gpu.nvidia.com/gpu-lost, gpu.nvidia.com/unmonitored, gpu.nvidia.com/xid]
#         description: The reserved keys; "example.com/*" means all keys of a domain.
#       namespaces:
#         type: array
#         items: {type: string}
#         default: []
#         description: Namespaces that may tolerate them.
#       users:
#         type: array
#         items: {type: string}
#         default: []
#         description: Users that may.
#       groups:
#         type: array
#         items: {type: string}
#         default: ["system:masters"]
#         description: Groups whose members may.
package dra.tolerations.reserved_keys

deny contains violation(toleration.paths, toleration.key) if {
	some toleration in input.tolerations
	not toleration.adminAccess
	not toleration.wildcard
	toleration.key in input.parameters["DRA-TOL-002"].keys
	not spared
}

deny contains violation(toleration.paths, toleration.key) if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.domainKey in input.parameters["DRA-TOL-002"].keys
	not spared
}

deny contains violation(toleration.paths, "an empty key stands for all keys") if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.wildcard
	count(input.parameters["DRA-TOL-002"].keys) > 0
	not spared
}

spared if input.namespace in input.parameters["DRA-TOL-002"].namespaces

spared if input.user.name in input.parameters["DRA-TOL-002"].users

spared if {
	some group in input.user.groups
	group in input.parameters["DRA-TOL-002"].groups
}

violation(paths, shown) := {
	"paths": paths,
	"field": "key",
	"message": concat("", ["tolerates a taint that is reserved for the platform: ", shown]),
	"hint": "leave it to the administrators of the devices; a claim without it does not get such a device",
}
