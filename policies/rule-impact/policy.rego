# METADATA
# title: A DeviceTaintRule, DeviceDrain, DeviceReaction or DeviceRoll affects more than the site allows
# description: |
#   When a rule, drain, reaction or roll is written so that it evicts more than before, the devices, pods
#   and namespaces that it affects are counted. A write above a threshold, or with an empty
#   selector, is usually a mistake. If it is intended, the annotation
#   dra-steward.io/acknowledged-impact sets a higher limit, such as pods<=120,namespaces<=4.
#   It replaces the thresholds that it names; a limit for pods or devices also replaces the
#   share of the devices. A rule that evicts already can be applied again, narrowed, paused
#   and deleted. The policy does nothing where the impact is not counted. `policies.disabled`
#   does not switch it off, `guard` does.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/141422
# custom:
#   code: DRA-RULE-004
#   severity: high
#   mode: deny
#   about: object
#   kinds: [DeviceTaintRule, DeviceDrain, DeviceReaction, DeviceRoll]
#   needs: [impact]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       maxPercent:
#         type: integer
#         minimum: 0
#         maximum: 100
#         default: 25
#         description: Largest share of the devices of the drivers that are hit, in percent. One device always passes.
#       maxPods:
#         type: integer
#         minimum: 0
#         default: 20
#         description: Most pods that one rule or drain may evict.
#       maxStranded:
#         type: [integer, "null"]
#         minimum: 0
#         default: null
#         description: Most pods that do not land again. null sets no limit; it is computed with guard.foresight only.
#       maxNamespaces:
#         type: integer
#         minimum: 0
#         default: 5
#         description: Most namespaces in which one rule or drain may evict.
package dra.taintrules.rule_impact

parameters := input.parameters["DRA-RULE-004"]

acknowledged := input.impact.acknowledged

# spoken are the things that the acknowledgement speaks of.
spoken := object.keys(acknowledged)

limits := object.remove(object.union({"pods": parameters.maxPods, "namespaces": parameters.maxNamespaces}, acknowledged), {"stranded"})

deny contains violation if {
	input.impact.everything
	not "pods" in spoken
	violation := {
		"paths": [path],
		"message": "an empty selector with the effect NoExecute evicts every pod of the cluster that uses a device, today's and tomorrow's",
		"hint": hint,
	}
}

deny contains violation if {
	not "pods" in spoken
	not "devices" in spoken
	hit := input.impact.devices
	hit > 1
	input.impact.driverDevices > 0
	hit * 100 > input.impact.driverDevices * parameters.maxPercent
	violation := {
		"paths": [path],
		"message": sprintf("hits %d of the %d devices of its drivers, more than the threshold of %d %%", [hit, input.impact.driverDevices, parameters.maxPercent]),
		"hint": hint,
	}
}

deny contains violation if {
	some what, limit in limits
	input.impact[what] > limit
	violation := {
		"paths": [path],
		"message": sprintf("hits %d %s, more than the %s %d", [input.impact[what], what, bound(what), limit]),
		"hint": hint,
	}
}

deny contains violation if {
	limit := object.get(acknowledged, "stranded", parameters.maxStranded)
	limit != null
	input.impact.stranded != null
	input.impact.stranded > limit
	violation := {
		"paths": [path],
		"message": sprintf("of the pods that it evicts, %d do not land again, more than the %s %d", [input.impact.stranded, bound("stranded"), limit]),
		"hint": hint,
	}
}

bound(what) := "acknowledged" if what in spoken

bound(what) := "threshold of" if not what in spoken

path := "spec.deviceSelector" if input.kind == "DeviceTaintRule"

path := "spec" if input.kind != "DeviceTaintRule"

hint := concat("", [
	"select fewer devices", instead,
	"; or, to proceed anyway, annotate it with ", input.impact.acknowledge,
])

instead := "; or drain them with a DeviceDrain (\"dra-steward drain\"), which keeps to PodDisruptionBudgets" if input.kind == "DeviceTaintRule"

instead := "" if input.kind != "DeviceTaintRule"
