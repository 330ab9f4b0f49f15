package dra.claims.queued_alternatives_test

import data.dra.claims.queued_alternatives

request(alternative) := {
	"name": "gpu/a", "path": "spec.devices.requests[gpu].firstAvailable[a]", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": alternative, "selectors": [],
}

violations(alternative, labels) := found if {
	found := queued_alternatives.deny with input.claim.requests as [request(alternative)]
		with input.namespaceLabels as labels
		with input.parameters as {"DRA-CLAIM-006": {"namespaceLabels": {"kueue-managed": "true"}}}
}

test_alternatives_are_denied if {
	some violation in violations(1, {"kueue-managed": "true", "team": "a"})
	violation.paths == {"spec.devices.requests[gpu].firstAvailable[a]"}
}

test_exact_request_passes if count(violations(0, {"kueue-managed": "true"})) == 0

test_other_namespace_passes if count(violations(1, {"kueue-managed": "false"})) == 0

test_unknown_namespace_passes if count(violations(1, {})) == 0
