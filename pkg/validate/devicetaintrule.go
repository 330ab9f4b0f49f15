package validate

import "slices"

// DeviceTaintRule lists the rules for DeviceTaintRules. A rule that holds for the
// taints in slices as well belongs into taintRules.
var DeviceTaintRule = slices.Concat(taintRuleMetadata, lift(ruleTaint, taintRules), taintRuleGaps, lift(ruleTaint, taintGaps))
