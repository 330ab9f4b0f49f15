# METADATA
# title: A request has more tolerations than its namespace may write
# description: |
#   The API documents that a request has at most 16 tolerations and no API server checks
#   it. The rule request-tolerations-max reports more than 16, or more than the limit of the
#   site. This policy reports more than the limit of a namespace, which may only be lower.
# custom:
#   code: DRA-TOL-007
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       max:
#         type: integer
#         minimum: 0
#         maximum: 16
#         default: 16
#         description: Tolerations of one request or one of its alternatives.
package dra.tolerations.tolerations_limit

deny contains violation if {
	some list in input.tolerationLists
	list.length > input.parameters["DRA-TOL-007"].max
	not reported_by_rule(list)
	violation := {
		"paths": [list.path],
		"message": sprintf("%d tolerations are more than the %d that are allowed here", [list.length, input.parameters["DRA-TOL-007"].max]),
		"hint": "tolerate only the taints that the workload can handle",
	}
}

# request-tolerations-max reports these, unless the site has changed or exempted it. A lower limit holds without it.
reported_by_rule(list) if {
	list.length > 16
	input.parameters["DRA-TOL-007"].max == 16
}
