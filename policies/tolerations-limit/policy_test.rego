package dra.tolerations.tolerations_limit_test

import data.dra.tolerations.tolerations_limit

violations(length, max) := found if {
	found := tolerations_limit.deny with input.tolerationLists as [
		{"path": "spec.devices.requests[gpu].exactly.tolerations", "length": length},
		{"path": "spec.devices.requests[gpu].firstAvailable[a].tolerations", "length": 1},
	]
		with input.parameters as {"DRA-TOL-007": {"max": max}}
}

test_more_is_denied if {
	some violation in violations(5, 4)
	violation.paths == ["spec.devices.requests[gpu].exactly.tolerations"]
	violation.message == "5 tolerations are more than the 4 that are allowed here"
}

test_each_alternative_is_denied if count(violations(1, 0)) == 2

test_as_many_pass if count(violations(4, 4)) == 0

test_the_limit_of_the_api_passes if count(violations(16, 16)) == 0

test_above_16_passes_since_the_rule_says_it if count(violations(17, 16)) == 0

# The rule may be off or exempted: a lower limit does not depend on it.
test_above_16_is_denied_where_the_limit_is_lower if count(violations(17, 4)) == 1
