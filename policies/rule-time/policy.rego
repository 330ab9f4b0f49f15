# METADATA
# title: The time of a taint rule is not the time of the write
# description: |
#   tolerationSeconds are counted from timeAdded. A time in the past uses them up: every
#   pod that tolerates the taint for a while is evicted at once. A time in the future puts
#   the eviction off. The API server sets the time if it is left out. A backup has the times
#   of its rules: list who restores it in restorers.
# custom:
#   code: DRA-RULE-005
#   severity: high
#   mode: deny
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule]
#   replaces: [taint-time-future]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxAgeSeconds:
#         type: integer
#         minimum: 0
#         default: 60
#         description: How far timeAdded may lie in the past, in seconds.
#       maxSkewSeconds:
#         type: integer
#         minimum: 0
#         default: 60
#         description: How far it may lie in the future, since clocks differ.
#       restorers:
#         type: array
#         items: {type: string}
#         default: []
#         description: Users and groups that restore backups. They may set any time in the past.
package dra.taintrules.rule_time

deny contains violation if {
	input.taintRule.timeChanged
	input.taintRule.age > input.parameters["DRA-RULE-005"].maxAgeSeconds
	input.taintRule.age != null
	not restores
	violation := {
		"paths": ["spec.taint.timeAdded"],
		"message": sprintf("%s is in the past and uses up the tolerationSeconds of the pods", [input.taintRule.timeAdded]),
		"hint": "leave it out: the API server sets the time of the write; for a backup, the site lists who restores it in the parameter restorers",
	}
}

restores if input.user.name in input.parameters["DRA-RULE-005"].restorers

restores if {
	some group in input.user.groups
	group in input.parameters["DRA-RULE-005"].restorers
}

deny contains violation if {
	input.taintRule.timeChanged
	input.taintRule.age < 0 - input.parameters["DRA-RULE-005"].maxSkewSeconds
	input.taintRule.age != null
	violation := {
		"paths": ["spec.taint.timeAdded"],
		"message": sprintf("%s is in the future and delays the eviction", [input.taintRule.timeAdded]),
		"hint": "leave it out; the API server sets the time of the write",
	}
}
