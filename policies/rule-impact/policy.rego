# METADATA
# title: A DeviceTaintRule or DeviceDrain hits more than the site expects of one
# description: |
#   The devices, pods and namespaces that a rule or drain would hit are counted when it is
#   written so that it evicts what it did not evict before. Above a threshold, or for an
#   empty selector, that is rarely what was meant. Where it is, the annotation
#   dra-steward.io/acknowledged-impact says how much it may be, such as
#   pods<=120,namespaces<=4: what it speaks of it decides, in place of the thresholds, and
#   one that speaks of pods or devices answers for the share of the devices, too. What
#   evicts already can be applied again, narrowed, paused and deleted. The policy says
#   nothing where nobody counts, and `policies.disabled` does not switch it off: `guard` does.
# related_resources:
#   - ref: https://github.com/kubernetes/kubernetes/issues/141422
# custom:
#   code: DRA-RULE-004
#   severity: high
#   mode: deny
#   about: object
#   kinds: [DeviceTaintRule, DeviceDrain]
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

limits := object.union({"pods": parameters.maxPods, "namespaces": parameters.maxNamespaces}, acknowledged)

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

bound(what) := "acknowledged" if what in spoken

bound(what) := "threshold of" if not what in spoken

path := "spec.deviceSelector" if input.kind == "DeviceTaintRule"

path := "spec" if input.kind == "DeviceDrain"

hint := concat("", [
	"select fewer devices", instead,
	"; or, to go on all the same, annotate it with ", input.impact.acknowledge,
])

instead := "; or drain them with a DeviceDrain (\"dra-steward drain\"), which keeps to PodDisruptionBudgets" if input.kind == "DeviceTaintRule"

instead := "" if input.kind == "DeviceDrain"
