# METADATA
# title: A claim asks for admin access
# description: |
#   adminAccess gives a pod a device that others are using, with all that is on it. The API
#   server asks for one label on the namespace, and everyone who may set labels there, or may
#   write claims in a namespace that has it, gets the access. Here it is for the listed
#   users and groups.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-auth/5018-dra-adminaccess
# custom:
#   code: DRA-CLAIM-001
#   severity: high
#   mode: warn
#   about: user
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       users:
#         type: array
#         items: {type: string}
#         default: []
#         description: Users that may ask for it.
#       groups:
#         type: array
#         items: {type: string}
#         default: ["system:masters"]
#         description: Groups whose members may.
package dra.claims.admin_access

deny contains violation if {
	some request in input.claim.requests
	request.adminAccess
	not input.user.name in input.parameters["DRA-CLAIM-001"].users
	not member
	violation := {
		"paths": [request.path],
		"field": "adminAccess",
		"message": "admin access shows the devices of other users, and is not for you here",
		"hint": "leave adminAccess out, or let an administrator create the claim",
	}
}

member if {
	some group in input.user.groups
	group in input.parameters["DRA-CLAIM-001"].groups
}
