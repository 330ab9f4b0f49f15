# METADATA
# title: A DeviceTaintRule names a pool or device of any driver
# description: |
#   Pool and device names are chosen by the drivers, most often the name of the node and
#   gpu-0. Without the driver the rule hits devices of other drivers, too.
# custom:
#   code: DRA-RULE-002
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule]
#   replaces: [taint-rule-driver]
package dra.taintrules.rule_without_driver

deny contains violation if {
	input.taintRule.selector.driver == ""
	names := [name | some name in [input.taintRule.selector.pool, input.taintRule.selector.device]; name != ""]
	count(names) > 0
	not unchanged
	violation := {
		"paths": ["spec.deviceSelector.driver"],
		"message": concat("", ["devices of several drivers may be in ", concat(", ", names)]),
		"hint": "name the driver; 'kubectl get resourceslices' shows it",
	}
}

unchanged if input.taintRule.old.selector == input.taintRule.selector
