# METADATA
# title: A claim has alternatives where a queue cannot count them
# description: |
#   Kueue, which admits workloads by quota, does not admit claims with firstAvailable: it
#   cannot know which alternative will be given. Such a workload stays pending. All other
#   policies check every alternative like a request of its own, so that the list does not
#   bypass them; this one reports lists where they are not allowed.
# custom:
#   code: DRA-CLAIM-006
#   severity: low
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       namespaceLabels:
#         type: object
#         additionalProperties: {type: string}
#         default: {kueue-managed: "true"}
#         description: The labels of which one marks a namespace whose workloads are queued.
package dra.claims.queued_alternatives

deny contains violation if {
	some request in input.claim.requests
	request.alternative > 0
	some label, value in input.parameters["DRA-CLAIM-006"].namespaceLabels
	input.namespaceLabels[label] == value
	violation := {
		"paths": {other.path | some other in input.claim.requests; other.alternative > 0},
		"message": concat("", ["the workloads of this namespace (", label, "=", value, ") are queued, and a queue cannot count alternatives"]),
		"hint": "ask for one kind of device with exactly",
	}
}
