# METADATA
# title: A workload tolerates evicting taints for too long
# description: |
#   A drain is done when the last pod has left. tolerationSeconds beyond what the site
#   plans for a maintenance are as good as none. So are those of an empty effect: they are
#   ignored. DRA-TOL-004 reports a toleration without tolerationSeconds.
#   DRA-CLAIM-001 decides about requests with admin access, which allocate nothing.
# custom:
#   code: DRA-TOL-005
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxSeconds:
#         type: integer
#         minimum: 0
#         default: 3600
#         description: The longest time, in seconds.
package dra.tolerations.toleration_ceiling

deny contains violation if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.ends
	toleration.seconds > input.parameters["DRA-TOL-005"].maxSeconds
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": sprintf("%d seconds are longer than the %d that are allowed here", [toleration.seconds, input.parameters["DRA-TOL-005"].maxSeconds]),
		"hint": "let the workload save its state within that time, or ask for an exemption until it can",
	}
}

deny contains violation if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.noExecute
	not toleration.ends
	toleration.seconds != null
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": sprintf("%d seconds with an empty effect are ignored, and at most %d are allowed here", [toleration.seconds, input.parameters["DRA-TOL-005"].maxSeconds]),
		"hint": "write effect NoExecute, or NoSchedule without tolerationSeconds if only new allocations are meant",
	}
}
