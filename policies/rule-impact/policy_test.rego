package dra.taintrules.rule_impact_test

import data.dra.taintrules.rule_impact

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "old": null,
}

everything := {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}

small := {"devices": 2, "driverDevices": 100, "claims": 2, "pods": 2, "namespaces": 1}

messages(impact, change) := {violation.message |
	some violation in rule_impact.deny with input.taintRule as object.union(rule, change)
		with input.impact as impact
		with input.parameters as {"DRA-RULE-004": {"maxPercent": 25, "maxPods": 20, "maxNamespaces": 5}}
}

test_many_devices_are_denied if {
	messages(object.union(small, {"devices": 26}), {}) == {"hits 26 of the 100 devices of its drivers, more than 25 %: driver gpu.example.com, pool node-1, device gpu-0 by example.com/maintenance"}
}

test_many_pods_are_denied if {
	messages(object.union(small, {"pods": 21}), {}) == {"evicts from 21 pods, more than 20: driver gpu.example.com, pool node-1, device gpu-0 by example.com/maintenance"}
}

test_many_namespaces_are_denied if {
	messages(object.union(small, {"namespaces": 6}), {}) == {"evicts from 6 namespaces, more than 5: driver gpu.example.com, pool node-1, device gpu-0 by example.com/maintenance"}
}

test_all_of_it_is_denied if {
	count(messages({"devices": 9, "driverDevices": 9, "claims": 99, "pods": 99, "namespaces": 9}, {})) == 3
}

test_update_to_more_is_denied if {
	old := {"key": rule.key, "value": "", "effect": "NoExecute", "selector": rule.selector}
	count(messages(object.union(small, {"pods": 21}), {"selector": object.union(rule.selector, {"pool": "", "device": ""}), "old": old})) == 1
}

test_few_pass if messages(small, {}) == set()

test_the_only_device_passes if messages(object.union(small, {"devices": 1, "driverDevices": 1}), {}) == set()

test_nobody_counts_passes if messages(null, {}) == set()

test_other_effect_passes if messages(object.union(small, {"pods": 99}), {"effect": "NoSchedule"}) == set()

test_running_rule_passes if {
	old := {"key": rule.key, "value": "", "effect": "NoExecute", "selector": rule.selector}
	messages(object.union(small, {"pods": 99}), {"old": old}) == set()
}
