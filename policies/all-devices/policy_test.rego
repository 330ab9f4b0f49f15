package dra.claims.all_devices_test

import data.dra.claims.all_devices

request := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": [],
}

violations(change) := found if {
	found := all_devices.deny with input.claim.requests as [object.union(request, change)]
		with input.parameters as {"DRA-CLAIM-002": {"classes": ["net.example.com"]}}
}

test_all_is_denied if {
	some violation in violations({"mode": "All", "count": 0})
	violation.message == "takes every device of class gpu.example.com that a node has"
}

test_alternative_is_denied if {
	count(violations({"mode": "All", "name": "gpu/all", "alternative": 2, "path": "spec.devices.requests[gpu].firstAvailable[all]"})) == 1
}

test_count_passes if count(violations({})) == 0

test_no_mode_passes if count(violations({"mode": ""})) == 0

test_admin_access_passes if count(violations({"mode": "All", "adminAccess": true})) == 0

test_class_is_allowed if count(violations({"mode": "All", "class": "net.example.com"})) == 0
