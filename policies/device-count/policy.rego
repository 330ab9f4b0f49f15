# METADATA
# title: A claim asks for more devices of a class than one claim may have
# description: |
#   ResourceQuota bounds what a namespace has in sum. It cannot say that one claim has at
#   most two GPUs. The requests of a claim are added up, of alternatives the largest
#   counts, and allocationMode All is more than any number. Off until a site has set
#   numbers.
# custom:
#   code: DRA-CLAIM-003
#   severity: medium
#   mode: "off"
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       classes:
#         type: object
#         additionalProperties: {type: integer, minimum: 0}
#         default: {}
#         description: The most devices of a class in one claim, by name of the class.
package dra.claims.device_count

deny contains violation if {
	some class, limit in input.parameters["DRA-CLAIM-003"].classes
	wanted := sum([max(counts) | some counts in demand[class]])
	wanted > limit
	violation := {
		"paths": [request.path | some request in input.claim.requests; request.class == class; not request.adminAccess],
		"field": "count",
		"message": sprintf("the claim asks for %d devices of class %s, more than %d", [wanted, class, limit]),
		"hint": "ask for fewer devices, or split the work over several pods with a claim each",
	}
}

deny contains violation if {
	some request in input.claim.requests
	request.mode == "All"
	not request.adminAccess
	limit := input.parameters["DRA-CLAIM-003"].classes[request.class]
	violation := {
		"paths": [request.path],
		"field": "allocationMode",
		"message": sprintf("the claim asks for all devices of class %s, more than %d", [request.class, limit]),
		"hint": "write allocationMode ExactCount with a count",
	}
}

# demand has the counts of a class by the request that they are alternatives of.
demand[request.class][split(request.name, "/")[0]] contains request.count if {
	some request in input.claim.requests
	not request.adminAccess
}
