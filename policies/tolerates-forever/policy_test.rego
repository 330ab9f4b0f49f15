package dra.tolerations.tolerates_forever_test

import data.dra.tolerations.tolerates_forever

toleration := {
	"key": "example.com/maintenance", "operator": "Exists", "value": "", "effect": "NoExecute", "seconds": null, "ends": false,
	"wildcard": false, "noExecute": true, "known": null, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

violations(change, keys) := found if {
	found := tolerates_forever.deny with input.tolerations as [object.union(toleration, change)]
		with input.parameters as {"DRA-TOL-004": {"keys": keys}}
}

test_no_end_is_denied if {
	some violation in violations({}, [])
	violation.message == "the pod is never evicted"
}

test_empty_effect_is_denied if {
	some violation in violations({"effect": ""}, ["example.com/other"])
	violation.message == "the pod is never evicted: an empty effect includes NoExecute, and its tolerationSeconds are ignored"
}

test_ignored_seconds_are_denied if count(violations({"effect": "", "seconds": 1}, [])) == 1

test_empty_toleration_is_denied if count(violations({"key": "", "operator": "Equal", "effect": "", "wildcard": true}, [])) == 1

test_template_is_denied if {
	count(violations({"paths": ["spec.spec.devices.requests[gpu].firstAvailable[a].tolerations[0]"]}, [])) == 1
}

test_end_passes if count(violations({"seconds": 0, "ends": true}, [])) == 0

test_other_effect_passes if count(violations({"effect": "NoSchedule", "noExecute": false}, [])) == 0

test_key_is_allowed if count(violations({}, ["example.com/maintenance"])) == 0
