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

test_request_of_an_unknown_class_is_not_judged_by_the_others_but_denied if {
	classes := object.union(gpu, {"other": object.union(class([]), {"known": false})})
	found := messages("gpu.exmaple.com", false, classes, [request([]), object.union(request([]), {"class": "other"})])
	found == {"the driver gpu.exmaple.com is not known"}
}

test_request_of_any_driver_passes if {
	classes := object.union(gpu, {"any": class(["true"])})
	messages("nic.example.com", false, classes, [request([]), object.union(request([]), {"class": "any"})]) == set()
}

wanted(selector) := messages("gpu.nvidia.com", true, {}, [request([selector])])

test_names_in_any_form_are_denied[selector] if {
	some selector in [
		`device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.matches("^a")`,
		`device.driver == "gpu.example.com" && !device.attributes["gpu.example.com"].shared`,
		`device.driver in ["gpu.example.com", 'nic.example.com']`,
		`device.driver=="gpu.example.com"||device.driver=="nic.example.com"`,
		`("gpu.example.com" == device.driver)`,
		`'gpu.example.com' == device.driver`,
	]
	count(wanted(selector)) == 1
}

test_selector_without_a_name_passes[selector] if {
	some selector in [
		`device.driver.startsWith("gpu.")`,
		`device.driver.endsWith(".example.com") || device.driver == "gpu.example.com"`,
		`device.driver.matches("^gpu[.]")`,
		`device.driver != "gpu.example.com"`,
		`!(device.driver == "gpu.example.com")`,
		`!(device.driver in ["gpu.example.com"])`,
		`"gpu.example.com" == device.driver.lowerAscii()`,
		`device.driver in device.attributes["gpu.example.com"].drivers`,
	]
	wanted(selector) == set()
}

test_driver_that_only_the_class_names_is_denied if {
	count(messages("gpu.nvidia.com", true, gpu, [request([`device.driver.endsWith(".com")`])])) == 1
}

test_unknown_driver_of_a_selector_without_a_name_is_denied if {
	found := messages("gpu.exmaple.com", false, {}, [request([`device.driver.startsWith("gpu.")`])])
	found == {"the driver gpu.exmaple.com is not known"}
}

# A driver of the site exists, but the devices of another do not get its configuration.
test_listed_driver_of_no_class_is_denied if {
	messages("nic.example.com", false, gpu, [request([])]) == {"no class or selector here is for the driver nic.example.com, so no driver reads the configuration"}
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
