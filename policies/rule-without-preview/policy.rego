# METADATA
# title: A DeviceTaintRule evicts without a preview
# description: |
#   A rule with the effect None changes nothing, and a controller writes into its status
#   how many devices and pods it affects. The enhancement proposal recommends this order:
#   None, check the status, then NoExecute. Before Kubernetes 1.35 there is no effect None,
#   and the policy does nothing.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5055-dra-device-taints-and-tolerations
# custom:
#   code: DRA-RULE-003
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [DeviceTaintRule]
#   needs: [taintRule]
package dra.taintrules.rule_without_preview

import data.dra.lib.taintrules

deny contains violation if {
	not input.taintRule.previewed
	taintrules.evicts
	violation := {
		"paths": ["spec.taint.effect"],
		"message": concat("", ["evicts immediately, without a preview of the affected pods: ", taintrules.evicted_by]),
		"hint": "write the rule with the effect None first, read its status, then change the effect",
	}
}
