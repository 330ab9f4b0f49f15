package dra.tolerations.unknown_key_test

import data.dra.tolerations.unknown_key

toleration := {
	"key": "gpu.nvidia.com/gpu-lots", "operator": "Exists", "value": "", "effect": "NoSchedule", "seconds": null, "ends": false,
	"wildcard": false, "noExecute": false, "known": false, "repeated": false, "domainKey": "gpu.nvidia.com/*",
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

violations(change) := found if {
	found := unknown_key.deny with input.tolerations as [object.union(toleration, change)]
		with input.parameters as {"DRA-TOL-008": {"keys": ["example.com/maintenance"]}}
}

test_unknown_key_is_denied if {
	some violation in violations({})
	violation.message == "no device has a taint with the key gpu.nvidia.com/gpu-lots"
}

test_known_key_passes if count(violations({"known": true})) == 0

test_nobody_knows_passes if count(violations({"known": null})) == 0

test_empty_key_passes_since_another_policy_says_it if count(violations({"key": "", "wildcard": true, "domainKey": ""})) == 0

test_listed_key_is_allowed if count(violations({"key": "example.com/maintenance", "domainKey": "example.com/*"})) == 0

test_listed_domain_is_allowed if {
	count(unknown_key.deny) == 0 with input.tolerations as [toleration]
		with input.parameters as {"DRA-TOL-008": {"keys": ["gpu.nvidia.com/*"]}}
}
