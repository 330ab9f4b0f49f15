# METADATA
# title: A request takes all devices
# description: |
#   allocationMode All takes every matching device of a node, as many as there are: one pod
#   holds the node, and the next one waits. Quota counts it as 32 devices, Kueue refuses it.
#   With admin access nothing is taken.
# custom:
#   code: DRA-CLAIM-002
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       classes:
#         type: array
#         items: {type: string}
#         default: []
#         description: Device classes of which all may be taken.
package dra.claims.all_devices

deny contains violation if {
	some request in input.claim.requests
	request.mode == "All"
	not request.adminAccess
	not request.class in input.parameters["DRA-CLAIM-002"].classes
	violation := {
		"paths": [request.path],
		"field": "allocationMode",
		"message": concat("", ["takes every device of class ", request.class, " that a node has"]),
		"hint": "write allocationMode ExactCount with the count that the workload needs",
	}
}
