# METADATA
# title: A namespace uses a device class that is not on its list
# description: |
#   RBAC cannot restrict who refers to a DeviceClass: every author of claims may name any.
#   With this policy a namespace uses the classes on its list and no others. It is off
#   until a site has written the lists, as parameters of the namespaces.
# custom:
#   code: DRA-CLAIM-004
#   severity: medium
#   mode: "off"
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       allowed:
#         type: array
#         items: {type: string}
#         default: []
#         description: Names of classes.
package dra.claims.allowed_classes

deny contains violation if {
	some request in input.claim.requests
	not request.class in input.parameters["DRA-CLAIM-004"].allowed
	violation := {
		"paths": [other.path | some other in input.claim.requests; other.class == request.class],
		"field": "deviceClassName",
		"message": concat("", ["the class ", request.class, " is not for this namespace"]),
		"hint": "use one of the allowed classes, or ask who administers them to allow this one",
		"allowed": input.parameters["DRA-CLAIM-004"].allowed,
	}
}
