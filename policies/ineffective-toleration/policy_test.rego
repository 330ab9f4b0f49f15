package dra.tolerations.ineffective_toleration_test

import data.dra.tolerations.ineffective_toleration

toleration := {
	"key": "example.com/maintenance", "operator": "Exists", "value": "", "effect": "NoExecute", "seconds": 60, "ends": true,
	"wildcard": false, "noExecute": true, "known": null, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

messages(change) := {violation.message |
	some violation in ineffective_toleration.deny with input.tolerations as [object.union(toleration, change)]
}

test_seconds_without_eviction_are_denied if {
	messages({"effect": "NoSchedule", "noExecute": false, "ends": false}) == {"is ignored with effect NoSchedule; only NoExecute evicts"}
}

test_negative_seconds_are_denied if messages({"seconds": -1}) == {"a negative time evicts at once"}

test_seconds_with_empty_effect_are_denied if {
	messages({"effect": "", "seconds": -1, "ends": false}) == {"is ignored with an empty effect; it counts only with NoExecute"}
}

test_effect_none_is_denied if {
	messages({"effect": "None", "noExecute": false, "seconds": null, "ends": false}) == {"a taint with the effect None needs no toleration"}
}

test_twice_is_denied if messages({"repeated": true}) == {"the same toleration is listed twice"}

test_alternative_is_denied if {
	count(messages({"seconds": -1, "paths": ["spec.devices.requests[gpu].firstAvailable[a].tolerations[0]"]})) == 1
}

test_seconds_pass if messages({}) == set()

test_no_seconds_pass if messages({"seconds": null, "ends": false}) == set()

test_empty_effect_without_seconds_passes if messages({"effect": "", "seconds": null, "ends": false}) == set()

test_other_effect_passes if messages({"effect": "NoSchedule", "noExecute": false, "seconds": null, "ends": false}) == set()
