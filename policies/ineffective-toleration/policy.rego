# METADATA
# title: A toleration has no effect
# description: |
#   The API server accepts tolerationSeconds with an empty effect or one that never evicts (which
#   are ignored), negative seconds (which evict at once), the effect None (which needs no
#   toleration) and the same toleration twice. None of them is what it looks like.
# custom:
#   code: DRA-TOL-006
#   severity: low
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate]
#   needs: [tolerations]
#   replaces: [toleration-seconds]
package dra.tolerations.ineffective_toleration

deny contains violation if {
	some toleration in input.tolerations
	not toleration.noExecute
	toleration.seconds != null
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": concat("", ["is ignored with effect ", toleration.effect, "; only NoExecute evicts"]),
		"hint": "leave tolerationSeconds out, or tolerate NoExecute",
	}
}

deny contains violation if {
	some toleration in input.tolerations
	toleration.noExecute
	not toleration.ends
	toleration.seconds != null
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": "is ignored with an empty effect; it counts only with NoExecute",
		"hint": "write effect NoExecute, or leave tolerationSeconds out",
	}
}

deny contains violation if {
	some toleration in input.tolerations
	toleration.ends
	toleration.seconds < 0
	violation := {
		"paths": toleration.paths,
		"field": "tolerationSeconds",
		"message": "a negative time evicts at once",
		"hint": "write 0 if that is meant",
	}
}

deny contains violation if {
	some toleration in input.tolerations
	toleration.effect == "None"
	violation := {
		"paths": toleration.paths,
		"field": "effect",
		"message": "a taint with the effect None needs no toleration",
		"hint": "remove the toleration",
	}
}

deny contains violation if {
	some toleration in input.tolerations
	toleration.repeated
	violation := {
		"paths": toleration.paths,
		"message": "the same toleration is listed twice",
		"hint": "remove one",
	}
}
