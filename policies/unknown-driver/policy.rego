# METADATA
# title: A configuration is for a driver that does not get it
# description: |
#   Drivers pass over configurations for others. One with a typing mistake in the driver's
#   name, or for another driver than that of the class, is ignored without a word. The
#   selectors of classes and requests say which drivers are meant (device.driver == "…" or
#   device.driver in ["…"]). Where they say it in another way, or not at all, a driver is
#   known if there is a schema for its parameters, or if the site lists it.
# custom:
#   code: DRA-CLAIM-005
#   severity: medium
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate, DeviceClass]
#   needs: [configs]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       drivers:
#         type: array
#         items: {type: string}
#         default: []
#         description: Drivers of the site that no schema is known for.
package dra.claims.unknown_driver

deny contains violation if {
	some config in input.configs
	not named(config.driver)
	drivers_are_named
	violation := {
		"paths": config.paths,
		"field": "driver",
		"message": concat("", ["no class or selector here is for the driver ", config.driver, ", so no driver reads the configuration"]),
		"hint": "write the driver as the selectors do",
	}
}

deny contains violation if {
	some config in input.configs
	not config.driverKnown
	not config.driver in input.parameters["DRA-CLAIM-005"].drivers
	not named(config.driver)
	not drivers_are_named
	violation := {
		"paths": config.paths,
		"field": "driver",
		"message": concat("", ["the driver ", config.driver, " is not known"]),
		"hint": "look for a typing mistake; a driver of the site belongs in the parameters of this policy",
	}
}

named(driver) if contains(selectors, concat("", ["\"", driver, "\""]))

named(driver) if contains(selectors, concat("", ["'", driver, "'"]))

# A request that does not name its drivers may get devices of any driver.
drivers_are_named if {
	count(together) > 0
	every all in together {
		some selector in all
		names_drivers(selector)
	}
}

# A device has to match the selectors of the request and those of its class.
together := array.concat(
	[array.concat(request.selectors, object.get(input.classes, [request.class, "selectors"], [])) | some request in input.claim.requests],
	[all | all := input.class.selectors],
)

# Selectors such as device.driver.startsWith("gpu.") and device.driver != "gpu.example.com" match drivers that they do
# not name.
names_drivers(selector) if {
	contains(selector, "device.driver")
	text := regex.replace(selector, `"[^"\\]*"|'[^'\\]*'`, `""`)
	not contains(regex.replace(text, comparison, ""), "device.driver")
	not regex.match(`!\s*\(`, text)
}

comparison := `device\.driver\s*(==\s*""|in\s*\[(\s*"",?)+\s*\])|""\s*==\s*device\.driver\s*([^.\s\w]|$)`

selectors := concat("\n", array.concat(
	array.concat(
		[selector | some class in input.classes; some selector in class.selectors],
		[selector | some request in input.claim.requests; some selector in request.selectors],
	),
	[selector | some selector in input.class.selectors],
))
