package dra.tolerations.toleration_ceiling_test

import data.dra.tolerations.toleration_ceiling

toleration := {
	"key": "example.com/maintenance", "operator": "Exists", "value": "", "effect": "NoExecute", "seconds": 3601, "ends": true,
	"wildcard": false, "noExecute": true, "known": null, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

violations(change) := found if {
	found := toleration_ceiling.deny with input.tolerations as [object.union(toleration, change)]
		with input.parameters as {"DRA-TOL-005": {"maxSeconds": 3600}}
}

test_longer_is_denied if {
	some violation in violations({})
	violation.message == "3601 seconds are longer than the 3600 that are allowed here"
}

test_empty_effect_is_denied if {
	some violation in violations({"effect": "", "seconds": 1, "ends": false})
	violation.message == "1 seconds with an empty effect are ignored, and at most 3600 are allowed here"
}

test_alternative_is_denied if {
	count(violations({"paths": ["spec.devices.requests[gpu].firstAvailable[a].tolerations[0]"]})) == 1
}

test_as_long_passes if count(violations({"seconds": 3600})) == 0

test_no_end_passes_since_another_policy_says_it if count(violations({"seconds": null, "ends": false})) == 0

test_empty_effect_without_seconds_passes if count(violations({"effect": "", "seconds": null, "ends": false})) == 0

test_other_effect_passes if {
	count(violations({"effect": "NoSchedule", "noExecute": false, "ends": false})) == 0
}
