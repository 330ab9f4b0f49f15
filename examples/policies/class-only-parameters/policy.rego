# METADATA
# title: A claim has parameters that are for device classes only
# description: |
#   GPUInit of gpu.acme.example.com names a command that the driver runs as root on the
#   node. Administrators set it in a DeviceClass. After the allocation, the driver cannot
#   distinguish who wrote a configuration, so users are not allowed to set it.
# related_resources:
#   - ref: https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4381-dra-structured-parameters
# custom:
#   code: ACME-001
#   severity: critical
#   mode: deny
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [configs]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       kinds:
#         type: object
#         additionalProperties: {type: array, items: {type: string}}
#         default: {gpu.acme.example.com: [GPUInit]}
#         description: Kinds of parameters that only classes can have, by driver.
package dra.custom.class_only_parameters

deny contains violation if {
	some config in input.configs
	config.kind in input.parameters["ACME-001"].kinds[config.driver]
	violation := {
		"paths": config.paths,
		"field": "parameters.kind",
		"message": concat("", [config.kind, " is for device classes only"]),
		"hint": "use a class that has it, or ask who administers the GPUs for one",
	}
}

# Without a kind the driver may guess.
deny contains violation if {
	some config in input.configs
	input.parameters["ACME-001"].kinds[config.driver]
	config.kind == ""
	violation := {
		"paths": config.paths,
		"field": "parameters.kind",
		"message": "the kind of the parameters is missing",
		"hint": "write apiVersion and kind",
	}
}
