package dra.taintrules.rule_time_test

import data.dra.taintrules.rule_time

rule := {
	"key": "example.com/maintenance", "value": "", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z", "age": 1, "timeChanged": true,
	"selector": {"present": true, "empty": false, "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
	"previewed": false, "old": null,
}

messages(change) := {violation.message |
	some violation in rule_time.deny with input.taintRule as object.union(object.union(rule, {"timeChanged": true}), change)
		with input.parameters as {"DRA-RULE-005": {"maxAgeSeconds": 60, "maxSkewSeconds": 60, "restorers": ["velero", "system:masters"]}}
		with input.user as {"name": "jane", "groups": ["gpu-admins"]}
}

restored(user, change) := {violation.message |
	some violation in rule_time.deny with input.taintRule as object.union(rule, change)
		with input.parameters as {"DRA-RULE-005": {"maxAgeSeconds": 60, "maxSkewSeconds": 60, "restorers": ["velero", "system:masters"]}}
		with input.user as user
}

stored := {"key": rule.key, "value": "", "effect": "NoExecute", "selector": rule.selector}

test_past_is_denied if {
	messages({"age": 60.5}) == {"2020-01-01T00:00:00Z is in the past and uses up the tolerationSeconds of the pods"}
}

test_future_is_denied if messages({"age": -3600}) == {"2020-01-01T00:00:00Z is in the future and delays the eviction"}

test_update_to_the_past_is_denied if count(messages({"age": 200000000, "old": stored})) == 1

test_other_effect_is_denied if count(messages({"age": 61, "effect": "None"})) == 1

test_now_passes if messages({"age": 0}) == set()

test_clocks_differ_passes if messages({"age": -60}) == set()

test_no_time_passes if messages({"age": null}) == set()

test_stored_time_passes if messages({"age": 200000000, "old": stored, "timeChanged": false}) == set()

test_restoring_user_passes if restored({"name": "velero", "groups": []}, {"age": 200000000}) == set()

test_restoring_group_passes if restored({"name": "root", "groups": ["system:masters"]}, {"age": 200000000}) == set()

test_restored_future_is_denied if count(restored({"name": "velero", "groups": []}, {"age": -3600})) == 1
