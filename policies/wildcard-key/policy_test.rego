package dra.tolerations.wildcard_key_test

import data.dra.tolerations.wildcard_key

empty := {
	"key": "", "operator": "Equal", "value": "", "effect": "", "seconds": null, "ends": false,
	"wildcard": true, "noExecute": true, "known": null, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

denied(toleration) := violations if {
	violations := wildcard_key.deny with input.tolerations as [toleration]
		with input.parameters as {"DRA-TOL-001": {"allowed": false}}
}

test_empty_toleration_is_denied if {
	some violation in denied(empty)
	violation.paths == empty.paths
	violation.message == "a toleration with an empty key tolerates every taint that has no value"
}

test_exists_is_denied if {
	some violation in denied(object.union(empty, {"operator": "Exists"}))
	violation.message == "a toleration with an empty key tolerates every taint"
}

test_value_alone_is_denied if {
	some violation in denied(object.union(empty, {"value": "x"}))
	violation.message == "a toleration with an empty key tolerates every taint with the value x"
}

test_effect_alone_is_denied if {
	count(denied(object.union(empty, {"effect": "NoSchedule"}))) == 1
}

test_alternative_is_denied if {
	count(denied(object.union(empty, {"paths": ["spec.devices.requests[gpu].firstAvailable[small].tolerations[0]"]}))) == 1
}

test_key_passes if {
	count(denied(object.union(empty, {"key": "example.com/a", "wildcard": false}))) == 0
}

test_monitor_passes if count(denied(object.union(empty, {"operator": "Exists", "adminAccess": true}))) == 0

test_monitor_needs_exists if count(denied(object.union(empty, {"adminAccess": true}))) == 1

test_parameter_allows if {
	count(wildcard_key.deny) == 0 with input.tolerations as [empty]
		with input.parameters as {"DRA-TOL-001": {"allowed": true}}
}
