# METADATA
# title: A toleration without a key tolerates every taint
# description: |
#   The API documentation says that an empty key needs the operator Exists, and the
#   API server does not check it. With any operator an empty key matches every key:
#   `tolerations: [{}]` tolerates every taint that has no value, such as
#   gpu.nvidia.com/gpu-lost. The pod then gets a device that is broken, reserved or
#   about to be serviced. A request with admin access allocates nothing and may tolerate
#   everything with the operator Exists; DRA-CLAIM-001 decides who may write it.
# related_resources:
#   - ref: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-taints-and-tolerations
# custom:
#   code: DRA-TOL-001
#   severity: high
#   mode: deny
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   replaces: [toleration-empty-key]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       allowed:
#         type: boolean
#         default: false
#         description: Let tolerations without a key pass, for the namespaces of drivers and monitoring.
package dra.tolerations.wildcard_key

deny contains violation if {
	not input.parameters["DRA-TOL-001"].allowed
	some toleration in input.tolerations
	toleration.wildcard
	not monitors(toleration)
	violation := {
		"paths": toleration.paths,
		"field": "key",
		"message": concat("", ["a toleration with an empty key tolerates every taint", scope(toleration.operator, toleration.value)]),
		"hint": "name the key of the taint to tolerate, one toleration for each key",
	}
}

# A monitor watches devices of every state and allocates none.
monitors(toleration) if {
	toleration.adminAccess
	toleration.operator == "Exists"
}

scope("Exists", _) := ""

scope(operator, value) := " that has no value" if {
	operator != "Exists"
	value == ""
}

scope(operator, value) := concat("", [" with the value ", value]) if {
	operator != "Exists"
	value != ""
}
