# METADATA
# title: A DeviceTaintRule does not name its owner or its reason
# description: |
#   Months later, nothing in the cluster tells who may lift a taint, or what it is for:
#   devices stay unused. dra-steward.io/owner and dra-steward.io/reason answer that, and
#   "dra-steward taint --list" and "dra-steward report" show them. A site can also ask for
#   a time of expiry and a ticket. Rules that ServiceAccounts write, such as those of
#   controllers, are not checked, and neither are updates that change only annotations.
# custom:
#   code: DRA-RULE-007
#   severity: low
#   mode: warn
#   strongest: warn
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       expiry:
#         type: boolean
#         default: false
#         description: Also ask for dra-steward.io/expires.
#       ticket:
#         type: boolean
#         default: false
#         description: Also ask for dra-steward.io/ticket.
#       users:
#         type: array
#         items: {type: string}
#         default: []
#         description: Users whose rules are not checked.
#       groups:
#         type: array
#         items: {type: string}
#         default: ["system:serviceaccounts"]
#         description: Groups whose members' rules are not checked. An empty list includes rules that GitOps tools apply.
package dra.taintrules.rule_without_owner

parameters := input.parameters["DRA-RULE-007"]

deny contains violation if {
	count(missing) > 0
	not excused
	violation := {
		"paths": [concat("", ["metadata.annotations[", note.annotation, "]"]) | some note in missing],
		"message": "is missing: later readers cannot tell who may lift the taint, or when",
		"hint": concat("", [
			"set it in the manifest, with ", concat(" and ", [note.flag | some note in missing]), " of \"dra-steward taint\", or with \"",
			concat(" ", array.concat(["kubectl annotate devicetaintrule", name], [concat("=", [note.annotation, note.example]) | some note in missing])), "\"",
		]),
	}
}

missing := [note |
	some note in notes
	note.asked
	trim_space(object.get(input.taintRule.annotations, note.annotation, "")) == ""
]

notes := [
	{"asked": true, "annotation": "dra-steward.io/owner", "flag": "--owner", "example": "TEAM"},
	{"asked": true, "annotation": "dra-steward.io/reason", "flag": "--reason", "example": "TEXT"},
	{"asked": parameters.expiry, "annotation": "dra-steward.io/expires", "flag": "--for", "example": "2026-12-31T18:00:00Z"},
	{"asked": parameters.ticket, "annotation": "dra-steward.io/ticket", "flag": "--ticket", "example": "URL"},
]

# name is that of the rule, where it can be part of a command.
name := input.name if named

name := "NAME" if not named

named if regex.match(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`, input.name)

excused if input.user.name in parameters.users

excused if {
	some group in input.user.groups
	group in parameters.groups
}
