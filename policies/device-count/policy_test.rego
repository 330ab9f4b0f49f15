package dra.claims.device_count_test

import data.dra.claims.device_count

request := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu.example.com", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": [],
}

messages(requests, classes) := {violation.message |
	some violation in device_count.deny with input.claim.requests as requests
		with input.parameters as {"DRA-CLAIM-003": {"classes": classes}}
}

other(name, change) := object.union(object.union(request, {"name": name, "path": concat("", ["spec.devices.requests[", name, "].exactly"])}), change)

test_count_is_denied if {
	messages([object.union(request, {"count": 3})], {"gpu.example.com": 2}) == {"the claim asks for 3 devices of class gpu.example.com, more than 2"}
}

test_sum_of_requests_is_denied if {
	messages([request, other("b", {}), other("c", {})], {"gpu.example.com": 2}) == {"the claim asks for 3 devices of class gpu.example.com, more than 2"}
}

test_paths_of_all_requests if {
	some violation in device_count.deny with input.claim.requests as [request, other("b", {"count": 2}), other("nic", {"class": "net.example.com"})]
		with input.parameters as {"DRA-CLAIM-003": {"classes": {"gpu.example.com": 2}}}
	violation.paths == ["spec.devices.requests[gpu].exactly", "spec.devices.requests[b].exactly"]
}

test_largest_alternative_is_denied if {
	count(messages([other("a/one", {"alternative": 1}), other("a/many", {"alternative": 2, "count": 8})], {"gpu.example.com": 4})) == 1
}

test_all_is_denied if {
	messages([object.union(request, {"mode": "All", "count": 0})], {"gpu.example.com": 2}) == {"the claim asks for all devices of class gpu.example.com, more than 2"}
}

test_alternatives_are_not_added_and_pass if {
	messages([other("a/one", {"count": 2}), other("a/two", {"count": 2})], {"gpu.example.com": 2}) == set()
}

test_as_many_pass if messages([object.union(request, {"count": 2})], {"gpu.example.com": 2}) == set()

test_other_class_passes if messages([object.union(request, {"count": 20})], {"net.example.com": 2}) == set()

test_admin_access_passes if messages([object.union(request, {"count": 20, "mode": "All", "adminAccess": true})], {"gpu.example.com": 2}) == set()

test_no_limit_passes if messages([object.union(request, {"count": 20})], {}) == set()
