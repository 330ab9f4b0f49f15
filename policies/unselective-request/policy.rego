# METADATA
# title: A request takes any device
# description: |
#   A class without selectors matches the devices of all drivers, and so does a request
#   that adds none: it may get a GPU or a network card. The expressions true and false look
#   like selectors and select everything, or nothing.
# custom:
#   code: DRA-CLAIM-007
#   severity: low
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   replaces: [selector-constant]
package dra.claims.unselective_request

deny contains violation if {
	some request in input.claim.requests
	request.constantSelector
	constants := {selector | some selector in request.selectors; trim_space(selector) in {"true", "false"}}
	violation := {
		"paths": [request.path],
		"field": "selectors",
		"message": concat("", ["the selector ", concat(" and ", constants), " does not depend on the device"]),
		"hint": "write which properties the device needs, or leave the selector out",
	}
}

deny contains violation if {
	some name, class in input.classes
	class.known
	class.selectsAll
	paths := [request.path | some request in input.claim.requests; request.class == name; count(request.selectors) == 0]
	count(paths) > 0
	violation := {
		"paths": paths,
		"field": "selectors",
		"message": concat("", ["neither the class ", name, " nor the request selects: any device of any driver may be given"]),
		"hint": "use a class with selectors",
	}
}
