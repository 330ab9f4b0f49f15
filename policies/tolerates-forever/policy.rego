# METADATA
# title: A workload tolerates evicting taints without an end
# description: |
#   A toleration of NoExecute without tolerationSeconds, or of every effect, keeps the pod
#   on its device without limit: the device cannot be drained, and a broken one keeps its pod.
#   An empty effect includes NoExecute, and its tolerationSeconds are ignored.
#   DRA-CLAIM-001 decides about requests with admin access, which allocate nothing.
# custom:
#   code: DRA-TOL-004
#   severity: medium
#   mode: warn
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
#         default: []
#         description: Keys that may be tolerated without an end.
package dra.tolerations.tolerates_forever

deny contains violation if {
	keys := input.parameters["DRA-TOL-004"].keys
	messages := {
		"NoExecute": "the pod is never evicted",
		"": "the pod is never evicted: an empty effect includes NoExecute, and its tolerationSeconds are ignored",
	}
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.noExecute
	not toleration.ends
	not toleration.key in keys
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": messages[toleration.effect],
		"hint": "write effect NoExecute with the tolerationSeconds that the workload needs to stop, or NoSchedule if only new allocations are meant",
	}
}
