package dra.taintrules.evicts_everything_test

import data.dra.taintrules.evicts_everything

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "acknowledged": false, "old": null,
}

everything := {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}

violations(change) := found if {
	found := evicts_everything.deny with input.taintRule as object.union(object.union(rule, {"selector": everything}), change)
}

stored(change) := object.union({"key": rule.key, "value": rule.value, "effect": "NoExecute", "selector": everything}, change)

test_everything_is_denied if {
	some violation in violations({})
	violation.paths == ["spec.deviceSelector"]
	violation.message == "an empty selector with the effect NoExecute evicts every pod of the cluster that uses a device (taint example.com/maintenance)"
}

test_update_to_evict_is_denied if count(violations({"old": stored({"effect": "None"})})) == 1

test_update_to_everything_is_denied if count(violations({"old": stored({"selector": rule.selector})})) == 1

test_update_from_nothing_is_denied if count(violations({"old": stored({"selector": object.union(everything, {"present": false, "empty": false})})})) == 1

test_other_key_is_denied if count(violations({"old": stored({"key": "example.com/other"})})) == 1

test_other_value_is_denied if count(violations({"old": stored({"value": "x"})})) == 1

test_label_of_a_running_rule_passes if count(violations({"old": stored({})})) == 0

test_other_effect_passes if count(violations({"effect": "NoSchedule"})) == 0

test_one_device_passes if count(violations({"selector": rule.selector})) == 0

test_acknowledged_passes if count(violations({"acknowledged": true})) == 0

test_no_selector_passes if count(violations({"selector": object.union(everything, {"present": false, "empty": false})})) == 0
