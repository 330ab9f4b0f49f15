# METADATA
# title: A namespace tolerates a taint that is not on its list
# description: |
#   Taints keep workloads off devices that are reserved for a team, a project or a test.
#   The API lets everybody tolerate every taint. With this policy a namespace tolerates
#   the keys on its list and no others. It is off until a site has written the lists, one
#   for all namespaces or one for each, as the parameters of the namespace.
#   DRA-CLAIM-001 decides about requests with admin access, which allocate nothing.
# custom:
#   code: DRA-TOL-003
#   severity: medium
#   mode: "off"
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       allowed:
#         type: array
#         items: {type: string}
#         default: []
#         description: Keys that may be tolerated; "example.com/*" means all keys of a domain.
package dra.tolerations.allowed_keys

deny contains violation(toleration.paths) if {
	some toleration in input.tolerations
	not toleration.adminAccess
	not toleration.wildcard
	not toleration.key in input.parameters["DRA-TOL-003"].allowed
	not domain(toleration.key) in allowed
}

deny contains violation(toleration.paths) if {
	some toleration in input.tolerations
	not toleration.adminAccess
	toleration.wildcard
	not domain(toleration.key) in allowed
}

violation(paths) := {
	"paths": paths,
	"field": "key",
	"message": "this namespace is not allowed to tolerate taints with this key",
	"hint": "use one of the allowed keys, or ask who administers the devices to allow this one",
	"allowed": allowed,
}

# An empty entry allows no toleration with an empty key.
allowed := {key | some key in input.parameters["DRA-TOL-003"].allowed; key != ""}

domain(key) := concat("", [split(key, "/")[0], "/*"])
