package dra.claims.allowed_classes_test

import data.dra.claims.allowed_classes

request := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": [],
}

violations(requests, allowed) := found if {
	found := allowed_classes.deny with input.claim.requests as requests
		with input.parameters as {"DRA-CLAIM-004": {"allowed": allowed}}
}

test_other_class_is_denied if {
	some violation in violations([request], ["shared.example.com"])
	violation.allowed == ["shared.example.com"]
	violation.field == "deviceClassName"
}

test_nothing_on_the_list_denies_all if count(violations([request], [])) == 1

test_alternative_is_denied if {
	second := object.union(request, {"name": "gpu/b", "alternative": 2, "class": "large.example.com", "path": "spec.devices.requests[gpu].firstAvailable[b]"})
	some violation in violations([request, second], ["gpu.example.com"])
	violation.paths == ["spec.devices.requests[gpu].firstAvailable[b]"]
}

test_one_violation_of_two_requests if {
	found := violations([request, object.union(request, {"name": "b", "path": "spec.devices.requests[b].exactly"})], [])
	count(found) == 1
	some violation in found
	count(violation.paths) == 2
}

test_class_is_allowed if count(violations([request], ["gpu.example.com"])) == 0
