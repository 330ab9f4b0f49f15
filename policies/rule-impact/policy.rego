# METADATA
# title: A DeviceTaintRule evicts more than the site expects of one rule
# description: |
#   The devices and pods that the rule would hit are counted when it is written. One above
#   a threshold is rarely what was meant; where it is, an exemption with a reason or higher
#   parameters let it pass. It says nothing while nobody counts.
# custom:
#   code: DRA-RULE-004
#   severity: high
#   mode: warn
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxPercent:
#         type: integer
#         minimum: 0
#         maximum: 100
#         default: 25
#         description: Largest share of the devices of the drivers that are hit, in percent. One device always passes.
#       maxPods:
#         type: integer
#         minimum: 0
#         default: 20
#         description: Most pods that one rule may evict.
#       maxNamespaces:
#         type: integer
#         minimum: 0
#         default: 5
#         description: Most namespaces in which one rule may evict.
package dra.taintrules.rule_impact

import data.dra.lib.taintrules

deny contains violation if {
	hit := input.impact.devices
	hit > 1
	hit * 100 > input.impact.driverDevices * input.parameters["DRA-RULE-004"].maxPercent
	taintrules.evicts
	violation := {
		"paths": ["spec.deviceSelector"],
		"message": sprintf("hits %d of the %d devices of its drivers, more than %d %%: %s", [hit, input.impact.driverDevices, input.parameters["DRA-RULE-004"].maxPercent, taintrules.evicted_by]),
		"hint": hint,
	}
}

deny contains violation if {
	some count, limit in {"pods": "maxPods", "namespaces": "maxNamespaces"}
	input.impact[count] > input.parameters["DRA-RULE-004"][limit]
	taintrules.evicts
	violation := {
		"paths": ["spec.deviceSelector"],
		"message": sprintf("evicts from %d %s, more than %d: %s", [input.impact[count], count, input.parameters["DRA-RULE-004"][limit], taintrules.evicted_by]),
		"hint": hint,
	}
}

hint := "select fewer devices and go step by step; or drain them, which keeps to PodDisruptionBudgets"
