# METADATA
# title: A DeviceTaintRule evicts every pod that uses a device
# description: |
#   `deviceSelector: {}` selects every device of the cluster. With NoExecute the rule
#   removes all pods with devices, in every namespace, whatever their priority and
#   without PodDisruptionBudgets. The API server accepts it. A rule that evicts already
#   can still be narrowed, labelled and deleted; one that acknowledges how many pods it
#   may evict (dra-steward.io/acknowledged-impact) is left to DRA-RULE-004.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/141422
# custom:
#   code: DRA-RULE-001
#   severity: critical
#   mode: deny
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule, impact]
#   replaces: [taint-rule-everything]
package dra.taintrules.evicts_everything

import data.dra.lib.taintrules

deny contains violation if {
	input.taintRule.selector.empty
	not input.taintRule.acknowledged
	taintrules.evicts
	violation := {
		"paths": ["spec.deviceSelector"],
		"message": concat("", ["an empty selector with the effect NoExecute evicts every pod of the cluster that uses a device (taint ", taintrules.taint, ")"]),
		"hint": "name a driver, pool or device; to select all devices, write one rule for each driver, or set the annotation dra-steward.io/acknowledged-impact to the number of pods to evict (pods<=120)",
	}
}
