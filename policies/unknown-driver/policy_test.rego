package dra.claims.unknown_driver_test

import data.dra.claims.unknown_driver

config(driver, known) := {
	"driver": driver, "apiVersion": "", "kind": "", "parameters": {}, "driverKnown": known, "known": known,
	"problems": [], "paths": ["spec.devices.config[0].opaque"],
}

class(selectors) := {"known": true, "labels": {}, "selectors": selectors, "extendedResourceName": ""}

request(selectors) := {
	"name": "gpu", "path": "spec.devices.requests[gpu].exactly", "class": "gpu", "mode": "ExactCount", "count": 1,
	"adminAccess": false, "alternative": 0, "selectors": selectors,
}

messages(driver, known, classes, requests) := {violation.message |
	some violation in unknown_driver.deny with input.configs as [config(driver, known)]
		with input.classes as classes
		with input.claim.requests as requests
		with input.class as null
		with input.parameters as {"DRA-CLAIM-005": {"drivers": ["nic.example.com"]}}
}

gpu := {"gpu": class(["device.driver == \"gpu.example.com\""])}

test_driver_of_no_class_is_denied if {
	messages("gpu.nvidia.com", true, gpu, [request([])]) == {"no class or selector here is for the driver gpu.nvidia.com, so no driver reads the configuration"}
}

test_typing_mistake_is_denied if count(messages("gpu.exmaple.com", false, gpu, [request([])])) == 1

test_part_of_a_name_is_denied if count(messages("example.com", false, gpu, [request([])])) == 1

test_alternative_of_an_unknown_class_is_not_judged_by_the_others_but_denied if {
	classes := object.union(gpu, {"other": object.union(class([]), {"known": false})})
	messages("gpu.exmaple.com", false, classes, [request([])]) == {"the driver gpu.exmaple.com is not known"}
}

test_unknown_driver_is_denied if messages("gpu.exmaple.com", false, {}, [request([])]) == {"the driver gpu.exmaple.com is not known"}

test_class_with_another_driver_is_denied if {
	found := unknown_driver.deny with input.configs as [config("gpu.example.com", true)]
		with input.class as {"selectors": ["device.driver == 'nic.example.com'"], "extendedResourceName": ""}
		with input.classes as {}
		with input.claim.requests as []
		with input.parameters as {"DRA-CLAIM-005": {"drivers": []}}
	count(found) == 1
}

test_driver_of_the_class_passes if messages("gpu.example.com", false, gpu, [request([])]) == set()

test_driver_of_the_request_passes if messages("gpu.example.org", false, gpu, [request(["device.driver == 'gpu.example.org'"])]) == set()

test_schema_passes_where_nobody_says_the_driver if messages("gpu.example.com", true, {"gpu": class(["true"])}, [request([])]) == set()

test_listed_driver_is_allowed if messages("nic.example.com", false, {}, [request([])]) == set()
