package dra.tolerations.allowed_keys_test

import data.dra.tolerations.allowed_keys

toleration := {
	"key": "team.example.com/b", "operator": "Equal", "value": "", "effect": "NoSchedule", "seconds": null, "ends": false,
	"wildcard": false, "noExecute": false, "known": null, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

violations(change, allowed) := found if {
	found := allowed_keys.deny with input.tolerations as [object.union(toleration, change)]
		with input.parameters as {"DRA-TOL-003": {"allowed": allowed}}
}

test_other_key_is_denied if {
	some violation in violations({}, ["team.example.com/a"])
	violation.allowed == {"team.example.com/a"}
}

test_nothing_on_the_list_denies_all if count(violations({}, [])) == 1

test_empty_key_is_denied if {
	every operator in ["Equal", "Exists"] {
		count(violations({"key": "", "wildcard": true, "operator": operator}, ["team.example.com/*"])) == 1
	}
}

test_empty_key_on_the_list_is_denied if count(violations({"key": "", "wildcard": true}, [""])) == 1

test_alternative_is_denied if {
	count(violations({"paths": ["spec.devices.requests[gpu].firstAvailable[small].tolerations[0]"]}, ["a"])) == 1
}

test_key_passes if count(violations({}, ["team.example.com/b"])) == 0

test_domain_passes if count(violations({}, ["team.example.com/*"])) == 0
