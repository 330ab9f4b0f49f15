package dra.claims.unselective_request_test

import data.dra.claims.unselective_request

request := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": [],
}

messages(selectors, class) := {violation.message |
	constant := {"selectors": selectors, "constantSelector": count({one | some one in selectors; trim_space(one) in {"true", "false"}}) > 0}
	some violation in unselective_request.deny with input.claim.requests as [object.union(request, constant)]
		with input.classes as {"gpu.example.com": object.union({"known": true, "labels": {}, "selectors": [], "extendedResourceName": "", "selectsAll": true}, class)}
}

nothing := "neither the class gpu.example.com nor the request selects: any device of any driver may be given"

test_no_selector_is_denied if messages([], {}) == {nothing}

test_true_is_denied if messages([" true "], {}) == {"the selector  true  does not depend on the device"}

test_true_of_the_class_is_denied if messages([], {"selectors": ["true"]}) == {nothing}

test_false_is_denied if messages(["false"], {"selectors": ["device.driver == 'a'"], "selectsAll": false}) == {"the selector false does not depend on the device"}

test_selector_of_the_class_passes if messages([], {"selectors": ["device.driver == 'a'"], "selectsAll": false}) == set()

test_selector_of_the_request_passes if messages(["device.driver == 'a'"], {}) == set()

test_unknown_class_passes if messages([], {"known": false, "selectsAll": false}) == set()
