package validate

// DeviceTaintRule lists the rules for DeviceTaintRules. A rule that holds for the
// taints in slices as well belongs into taintRules.
var DeviceTaintRule = lift(ruleTaint, taintRules)
