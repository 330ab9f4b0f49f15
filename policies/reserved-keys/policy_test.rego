package dra.tolerations.reserved_keys_test

import data.dra.tolerations.reserved_keys

toleration := {
	"key": "gpu.nvidia.com/gpu-lost", "operator": "Exists", "value": "", "effect": "NoSchedule", "seconds": null, "ends": false,
	"wildcard": false, "noExecute": false, "known": true, "repeated": false,
	"paths": ["spec.devices.requests[gpu].exactly.tolerations[0]"],
}

parameters := {"keys": ["gpu.nvidia.com/gpu-lost", "health.example.com/*"], "namespaces": ["gpu-operator"], "users": ["root"], "groups": ["admins"]}

violations(change, namespace, user) := found if {
	changed := object.union(toleration, change)
	written := object.union(changed, {"domainKey": domain_key(changed.key)})
	found := reserved_keys.deny with input.tolerations as [written]
		with input.namespace as namespace
		with input.user as user
		with input.parameters as {"DRA-TOL-002": parameters}
}

domain_key(key) := concat("", [split(key, "/")[0], "/*"]) if contains(key, "/")

domain_key(key) := "" if not contains(key, "/")

tenant := {"name": "jane", "groups": ["system:authenticated"]}

test_key_is_denied if {
	some violation in violations({}, "team-a", tenant)
	violation.paths == toleration.paths
	violation.message == "tolerates a taint that is reserved for the platform: gpu.nvidia.com/gpu-lost"
}

test_key_of_a_domain_is_denied if count(violations({"key": "health.example.com/ecc"}, "team-a", tenant)) == 1

test_no_effect_is_denied if count(violations({"effect": "", "noExecute": true}, "team-a", tenant)) == 1

test_equal_is_denied if count(violations({"operator": "Equal"}, "team-a", tenant)) == 1

test_empty_key_is_denied if {
	some operator in ["Equal", "Exists"]
	some violation in violations({"key": "", "operator": operator, "wildcard": true}, "team-a", tenant)
	violation.message == "tolerates a taint that is reserved for the platform: an empty key stands for all keys"
}

test_alternative_is_denied if {
	count(violations({"paths": ["spec.devices.requests[gpu].firstAvailable[small].tolerations[0]"]}, "team-a", tenant)) == 1
}

test_template_is_denied if {
	count(violations({"paths": ["spec.spec.devices.requests[gpu].exactly.tolerations[0]"]}, "team-a", tenant)) == 1
}

test_other_key_passes if count(violations({"key": "example.com/maintenance"}, "team-a", tenant)) == 0

test_key_without_domain_passes if count(violations({"key": "health.example.com"}, "team-a", tenant)) == 0

test_subdomain_passes if count(violations({"key": "x.health.example.com/ecc"}, "team-a", tenant)) == 0

test_namespace_is_allowed if count(violations({}, "gpu-operator", tenant)) == 0

test_user_is_allowed if count(violations({}, "team-a", {"name": "root", "groups": []})) == 0

test_group_is_allowed if count(violations({}, "team-a", {"name": "joe", "groups": ["system:authenticated", "admins"]})) == 0

test_nothing_reserved_passes if {
	count(reserved_keys.deny) == 0 with input.tolerations as [object.union(toleration, {"key": "", "wildcard": true})]
		with input.namespace as "team-a"
		with input.user as tenant
		with input.parameters as {"DRA-TOL-002": object.union(parameters, {"keys": []})}
}
