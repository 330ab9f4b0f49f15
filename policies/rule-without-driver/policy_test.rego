package dra.taintrules.rule_without_driver_test

import data.dra.taintrules.rule_without_driver

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "old": null,
}

everything := {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}

violations(selector, change) := found if {
	found := rule_without_driver.deny with input.taintRule as object.union(object.union(rule, {"selector": selector}), change)
}

pool := {"present": true, "empty": false, "driver": "", "pool": "node-1", "device": ""}

test_pool_is_denied if {
	some violation in violations(pool, {})
	violation.message == "devices of several drivers may be in node-1"
}

test_device_is_denied if count(violations(object.union(pool, {"pool": "", "device": "gpu-0"}), {"effect": "NoSchedule"})) == 1

test_update_is_denied if count(violations(pool, {"old": {"key": rule.key, "value": "", "effect": "None", "selector": rule.selector}})) == 1

test_unchanged_selector_passes if count(violations(pool, {"old": {"key": rule.key, "value": "", "effect": "None", "selector": pool}})) == 0

test_driver_passes if count(violations(rule.selector, {})) == 0

test_everything_passes_since_another_policy_says_it if count(violations(everything, {})) == 0
