package dra.taintrules.rule_without_owner_test

import data.dra.taintrules.rule_without_owner

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoSchedule", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "acknowledged": false, "old": null, "annotations": {},
}

both := {"dra-steward.io/owner": "gpu-team", "dra-steward.io/reason": "replace the fan"}

defaults := {"expiry": false, "ticket": false, "users": ["restorer"], "groups": ["system:serviceaccounts"]}

jane := {"name": "jane", "groups": ["gpu-admins", "system:authenticated"]}

violations(annotations, change, user) := found if {
	found := rule_without_owner.deny with input.taintRule as object.union(rule, {"annotations": annotations})
		with input.name as "suspect"
		with input.user as user
		with input.parameters as {"DRA-RULE-007": object.union(defaults, change)}
}

paths(found) := {path | some violation in found; some path in violation.paths}

test_rule_without_annotations_is_denied if {
	paths(violations({}, {}, jane)) == {"metadata.annotations[dra-steward.io/owner]", "metadata.annotations[dra-steward.io/reason]"}
}

test_remedy_names_the_rule if {
	some violation in violations({"dra-steward.io/owner": "gpu-team"}, {}, jane)
	violation.message == "is missing: later readers cannot tell who may lift the taint, or when"
	violation.hint == `set it in the manifest, with --reason of "dra-steward taint", or with "kubectl annotate devicetaintrule suspect dra-steward.io/reason=TEXT"`
}

test_remedy_has_all_that_is_missing if {
	some violation in violations({}, {}, jane)
	violation.hint == `set it in the manifest, with --owner and --reason of "dra-steward taint", or with "kubectl annotate devicetaintrule suspect dra-steward.io/owner=TEAM dra-steward.io/reason=TEXT"`
}

test_blank_owner_is_denied if {
	paths(violations(object.union(both, {"dra-steward.io/owner": " "}), {}, jane)) == {"metadata.annotations[dra-steward.io/owner]"}
}

test_other_annotations_are_denied if count(violations({"owner": "gpu-team", "reason": "fan"}, {}, jane)) == 1

test_missing_expiry_is_denied if {
	some violation in violations(both, {"expiry": true}, jane)
	violation.paths == ["metadata.annotations[dra-steward.io/expires]"]
	contains(violation.hint, "with --for of")
}

test_missing_ticket_is_denied if {
	some violation in violations(both, {"ticket": true}, jane)
	violation.paths == ["metadata.annotations[dra-steward.io/ticket]"]
}

test_service_account_is_denied_without_groups if {
	count(violations({}, {"groups": []}, {"name": "system:serviceaccount:argocd:controller", "groups": ["system:serviceaccounts"]})) == 1
}

test_group_of_the_same_name_as_a_user_is_denied if count(violations({}, {}, {"name": "jane", "groups": ["restorer"]})) == 1

# A name that the API server has still to generate, and one that is none, are not part of a command.
test_name_without_a_value_is_denied if {
	every name in ["", "suspect-*", "a; rm -rf b"] {
		found := rule_without_owner.deny with input.taintRule as object.union(rule, {"annotations": {"dra-steward.io/owner": "gpu-team"}})
			with input.name as name
			with input.user as jane
			with input.parameters as {"DRA-RULE-007": defaults}
		some violation in found
		contains(violation.hint, "devicetaintrule NAME dra-steward.io/reason=TEXT")
	}
}

test_owner_and_reason_pass if count(violations(both, {}, jane)) == 0

test_expiry_and_ticket_pass if {
	count(violations(
		object.union(both, {"dra-steward.io/expires": "2026-12-31T18:00:00Z", "dra-steward.io/ticket": "OPS-1"}),
		{"expiry": true, "ticket": true}, jane,
	)) == 0
}

test_service_account_passes if {
	count(violations({}, {}, {"name": "system:serviceaccount:gpu:driver", "groups": ["system:serviceaccounts", "system:authenticated"]})) == 0
}

test_user_of_the_site_passes if count(violations({}, {}, {"name": "restorer", "groups": []})) == 0
