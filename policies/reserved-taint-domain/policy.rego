# METADATA
# title: A taint has a key from a domain of another owner
# description: |
#   gpu.nvidia.com/xid says that the driver has seen an error. A DeviceTaintRule, or a
#   driver of another name, that sets such a key makes monitoring and runbooks believe the
#   driver said it; a workload that tolerates the driver's taint tolerates this one as well.
#   Take a domain of the site for taints of the site. Slices are only warned about,
#   whatever the mode: a driver must be able to publish.
# custom:
#   code: DRA-RULE-006
#   severity: low
#   mode: warn
#   about: object
#   kinds: [DeviceTaintRule, ResourceSlice]
#   needs: [taintRule, slice]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       domains:
#         type: array
#         items: {type: string}
#         default: [gpu.nvidia.com, compute-domain.nvidia.com, kubernetes.io, k8s.io]
#         description: Domains of drivers and of Kubernetes, with all below them.
#       users:
#         type: array
#         items: {type: string}
#         default: []
#         description: Who may write taint rules with them, such as a driver that makes rules for its own devices.
package dra.taintrules.reserved_taint_domain

deny contains violation if {
	domain := split(input.taintRule.key, "/")[0]
	some reserved in input.parameters["DRA-RULE-006"].domains
	within(domain, reserved)
	not input.taintRule.old.key == input.taintRule.key
	not input.user.name in input.parameters["DRA-RULE-006"].users
	violation := {
		"paths": ["spec.taint.key"],
		"message": concat("", ["the domain ", reserved, " is for the taints of its owner"]),
		"hint": "use a domain of your own, such as maintenance.example.com/firmware",
	}
}

deny contains violation if {
	some taint in input.slice.taints
	domain := split(taint.key, "/")[0]
	some reserved in input.parameters["DRA-RULE-006"].domains
	within(domain, reserved)
	not within(input.slice.driver, reserved)
	violation := {
		"paths": taint.paths,
		"field": "key",
		"message": concat("", ["the domain ", reserved, " is for the taints of its owner, not of the driver ", input.slice.driver]),
		"hint": "use the domain of the driver",
	}
}

within(domain, reserved) if domain == reserved

within(domain, reserved) if endswith(domain, concat("", [".", reserved]))
