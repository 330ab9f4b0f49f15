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

# evicted_by names devices and taint: what is said of a rule that is widened differs from
# what was said of the stored one, so it does not pass for an old problem.
evicted_by := concat("", [concat(", ", devices), " by ", taint])

devices := array.concat(
	[concat(" ", [part, name]) | some part in ["driver", "pool", "device"]; name := input.taintRule.selector[part]; name != ""],
	["all devices" | input.taintRule.selector.empty],
)

taint := input.taintRule.key if input.taintRule.value == ""

taint := concat("=", [input.taintRule.key, input.taintRule.value]) if input.taintRule.value != ""

covers("", _) := true

covers(old, new) if old == new
