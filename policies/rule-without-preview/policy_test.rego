package dra.taintrules.rule_without_preview_test

import data.dra.taintrules.rule_without_preview

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "old": null,
}

everything := {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}

violations(change) := found if {
	found := rule_without_preview.deny with input.taintRule as object.union(rule, change)
}

stored(change) := object.union({"key": rule.key, "value": rule.value, "effect": "NoExecute", "selector": rule.selector}, change)

test_creation_is_denied if {
	some violation in violations({})
	violation.paths == ["spec.taint.effect"]
	violation.message == "evicts immediately, without a preview of the affected pods: driver gpu.example.com, pool node-1, device gpu-0 by example.com/maintenance"
}

test_update_before_the_status_is_denied if count(violations({"old": stored({"effect": "None"})})) == 1

test_wider_selector_is_denied if {
	count(violations({"selector": object.union(rule.selector, {"device": ""}), "old": stored({})})) == 1
}

test_other_device_is_denied if {
	count(violations({"selector": object.union(rule.selector, {"device": "gpu-1"}), "old": stored({})})) == 1
}

test_other_pool_is_denied if {
	count(violations({"selector": object.union(rule.selector, {"pool": "node-2"}), "old": stored({})})) == 1
}

test_preview_passes if count(violations({"previewed": true, "old": stored({"effect": "None"})})) == 0

test_narrower_selector_passes if count(violations({"old": stored({"selector": everything})})) == 0

test_effect_none_passes if count(violations({"effect": "None"})) == 0

test_message_has_the_value if {
	some violation in violations({"value": "firmware", "selector": {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}})
	violation.message == "evicts immediately, without a preview of the affected pods: all devices by example.com/maintenance=firmware"
}
