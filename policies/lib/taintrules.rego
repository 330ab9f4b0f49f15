package dra.lib.taintrules

# evicts: the rule evicts, and it is not one that has evicted at least these devices for
# the same taint before. What is running can be narrowed and labelled.
evicts if {
	input.taintRule.effect == "NoExecute"
	input.taintRule.selector.present
	not evicted
}

evicted if {
	old := input.taintRule.old
	old.effect == "NoExecute"
	old.key == input.taintRule.key
	old.value == input.taintRule.value
	old.selector.present
	old.selector.driver in {"", input.taintRule.selector.driver}
	old.selector.pool in {"", input.taintRule.selector.pool}
	old.selector.device in {"", input.taintRule.selector.device}
}
