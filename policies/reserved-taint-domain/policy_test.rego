package dra.taintrules.reserved_taint_domain_test

import data.dra.taintrules.reserved_taint_domain

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "old": null,
}

everything := {"present": true, "empty": true, "driver": "", "pool": "", "device": ""}

parameters := {"DRA-RULE-006": {"domains": ["gpu.nvidia.com", "k8s.io"], "users": ["system:serviceaccount:gpu:driver"]}}

ruled(key, user, old) := found if {
	found := reserved_taint_domain.deny with input.taintRule as object.union(rule, {"key": key, "old": old})
		with input.slice as null
		with input.user.name as user
		with input.parameters as parameters
}

sliced(key, driver) := found if {
	found := reserved_taint_domain.deny with input.slice as {"driver": driver, "pool": "node-1", "taints": [{
		"key": key, "value": "79", "effect": "NoSchedule",
		"paths": ["spec.devices[gpu-0].taints[0]"],
	}]}
		with input.taintRule as null
		with input.parameters as parameters
}

test_key_of_a_driver_is_denied if {
	some violation in ruled("gpu.nvidia.com/xid", "jane", null)
	violation.message == "the domain gpu.nvidia.com is for the taints of its owner"
}

test_key_below_is_denied if count(ruled("device.k8s.io/broken", "jane", null)) == 1

test_update_to_the_key_is_denied if {
	count(ruled("gpu.nvidia.com/xid", "jane", {"key": "a", "value": "", "effect": "None", "selector": rule.selector})) == 1
}

test_slice_of_another_driver_is_denied if {
	some violation in sliced("gpu.nvidia.com/xid", "gpu.example.com")
	violation.paths == ["spec.devices[gpu-0].taints[0]"]
}

test_own_domain_passes if count(ruled("maintenance.example.com/firmware", "jane", null)) == 0

test_similar_domain_passes if count(ruled("notk8s.io/x", "jane", null)) == 0

test_stored_key_passes if {
	count(ruled("gpu.nvidia.com/xid", "jane", {"key": "gpu.nvidia.com/xid", "value": "", "effect": "None", "selector": rule.selector})) == 0
}

test_driver_is_allowed if count(ruled("gpu.nvidia.com/xid", "system:serviceaccount:gpu:driver", null)) == 0

test_slice_of_the_driver_passes if count(sliced("gpu.nvidia.com/xid", "gpu.nvidia.com")) == 0

test_slice_with_own_key_passes if count(sliced("gpu.example.com/xid", "gpu.example.com")) == 0
