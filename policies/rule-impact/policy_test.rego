package dra.taintrules.rule_impact_test

import data.dra.taintrules.rule_impact

small := {
	"devices": 2, "driverDevices": 100, "claims": 2, "pods": 2, "namespaces": 1, "everything": false,
	"namespaceNames": ["ml"], "budgets": [], "stranded": null, "acknowledged": {},
	"acknowledge": "dra-steward.io/acknowledged-impact: \"pods<=2,namespaces<=1\"",
}

messages(change) := {violation.message |
	some violation in rule_impact.deny with input.kind as "DeviceTaintRule"
		with input.impact as object.union(small, change)
		with input.parameters as {"DRA-RULE-004": {"maxPercent": 25, "maxPods": 20, "maxNamespaces": 5, "maxStranded": null}}
}

test_many_devices_are_denied if {
	messages({"devices": 26}) == {"hits 26 of the 100 devices of its drivers, more than the threshold of 25 %"}
}

test_many_pods_are_denied if messages({"pods": 21}) == {"hits 21 pods, more than the threshold of 20"}

test_many_namespaces_are_denied if messages({"namespaces": 6}) == {"hits 6 namespaces, more than the threshold of 5"}

test_all_of_it_is_denied if count(messages({"devices": 9, "driverDevices": 9, "claims": 99, "pods": 99, "namespaces": 9})) == 3

test_empty_selector_is_denied if {
	messages({"everything": true, "devices": 0, "claims": 0, "pods": 0}) == {"an empty selector with the effect NoExecute evicts every pod of the cluster that uses a device, today's and tomorrow's"}
}

test_empty_selector_with_other_acknowledgement_is_denied if {
	count(messages({"everything": true, "acknowledged": {"namespaces": 9}})) == 1
}

test_above_the_acknowledged_is_denied if {
	messages({"pods": 31, "acknowledged": {"pods": 30}}) == {"hits 31 pods, more than the acknowledged 30"}
}

test_acknowledged_less_than_the_threshold_is_denied if {
	messages({"pods": 6, "acknowledged": {"pods": 5}}) == {"hits 6 pods, more than the acknowledged 5"}
}

test_not_acknowledged_is_denied if {
	messages({"pods": 31, "namespaces": 9, "acknowledged": {"pods": 31}}) == {"hits 9 namespaces, more than the threshold of 5"}
}

test_acknowledged_passes if {
	messages({"everything": true, "devices": 99, "pods": 31, "namespaces": 9, "acknowledged": {"pods": 31, "namespaces": 9}}) == set()
}

stranded(change, most) := {violation.message |
	some violation in rule_impact.deny with input.kind as "DeviceTaintRule"
		with input.impact as object.union(small, change)
		with input.parameters as {"DRA-RULE-004": {"maxPercent": 25, "maxPods": 20, "maxNamespaces": 5, "maxStranded": most}}
}

test_stranded_pods_are_denied if {
	stranded({"stranded": 1}, 0) == {"of the pods that it evicts, 1 do not land again, more than the threshold of 0"}
}

test_stranded_pods_above_the_acknowledged_are_denied if {
	stranded({"stranded": 3, "acknowledged": {"stranded": 2}}, 0) == {"of the pods that it evicts, 3 do not land again, more than the acknowledged 2"}
}

test_stranded_pods_pass_without_a_threshold if stranded({"stranded": 9}, null) == set()

test_stranded_pods_that_are_acknowledged_pass if stranded({"stranded": 3, "acknowledged": {"stranded": 3}}, 0) == set()

test_unknown_stranded_pods_pass if stranded({"stranded": null}, 0) == set()

test_acknowledged_devices_pass if messages({"devices": 99, "acknowledged": {"devices": 99}}) == set()

test_drain_of_many_is_denied if {
	some violation in rule_impact.deny with input.kind as "DeviceDrain"
		with input.impact as object.union(small, {"pods": 21})
		with input.parameters as {"DRA-RULE-004": {"maxPercent": 25, "maxPods": 20, "maxNamespaces": 5, "maxStranded": null}}
	violation.paths == ["spec"]
	violation.hint == "select fewer devices; or, to proceed anyway, annotate it with dra-steward.io/acknowledged-impact: \"pods<=2,namespaces<=1\""
}

test_reaction_to_many_is_denied if {
	some violation in rule_impact.deny with input.kind as "DeviceReaction"
		with input.impact as object.union(small, {"pods": 21})
		with input.parameters as {"DRA-RULE-004": {"maxPercent": 25, "maxPods": 20, "maxNamespaces": 5, "maxStranded": null}}
	violation.paths == ["spec"]
}

test_few_pass if messages({}) == set()

test_the_only_device_passes if messages({"devices": 1, "driverDevices": 1}) == set()

test_devices_that_nobody_counts_pass if messages({"devices": 9, "driverDevices": 0}) == set()
