package dra.custom.class_only_parameters_test

import data.dra.custom.class_only_parameters

config(driver, kind) := {
	"driver": driver, "apiVersion": "gpu.acme.example.com/v1", "kind": kind, "parameters": {},
	"driverKnown": true, "known": true, "problems": [], "paths": ["spec.devices.config[0].opaque"],
}

violations(driver, kind) := found if {
	found := class_only_parameters.deny with input.configs as [config(driver, kind)]
		with input.parameters as {"ACME-001": {"kinds": {"gpu.acme.example.com": ["GPUInit"]}}}
}

test_init_is_denied if {
	some violation in violations("gpu.acme.example.com", "GPUInit")
	violation.message == "GPUInit is for device classes only"
}

test_no_kind_is_denied if count(violations("gpu.acme.example.com", "")) == 1

test_other_kind_passes if count(violations("gpu.acme.example.com", "GPUConfig")) == 0

test_other_driver_passes if count(violations("gpu.example.com", "GPUInit")) == 0
