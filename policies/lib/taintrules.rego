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
	new := input.taintRule
	old.effect == "NoExecute"
	old.key == new.key
	old.value == new.value
	old.selector.present
	covers(old.selector.driver, new.selector.driver)
	covers(old.selector.pool, new.selector.pool)
	covers(old.selector.device, new.selector.device)
}

covers("", _) := true

covers(old, new) if old == new
