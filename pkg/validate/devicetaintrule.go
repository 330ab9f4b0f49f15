package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DeviceTaintRule lists the rules for DeviceTaintRules. A rule that holds for the
// taints in slices as well belongs into taintRules.
var DeviceTaintRule = slices.Concat(taintRuleMetadata, Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-selector",
		Doc: `A device selector names drivers, pools and devices as they can be named.

A driver by a DNS subdomain of at most 63 bytes, a pool by DNS subdomains with slashes
between, a device by a DNS label. Another name selects nothing.`,
		Class:  Mirror,
		Server: "the same, since 1.33",
		Source: "KEP-5055, DeviceTaintSelector",
		Check:  taintRuleSelector,
	},
}, lift(rulePart, taintRules), taintRuleGaps, lift(ruleTaint, taintGaps))

// DeviceTaintRuleStatus lists the rules for what is written to the status of a
// DeviceTaintRule.
var DeviceTaintRuleStatus = slices.Concat(liftReset(metadataRules, taintRuleStatusPart), Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-conditions",
		Doc: `The status of a taint rule has at most 8 conditions, of different types.

Each has a type, a status, a time and a reason in the form of all conditions of
Kubernetes.`,
		Class:  Mirror,
		Server: "the same, since 1.35",
		Source: "KEP-5055, DeviceTaintRuleStatusMaxConditions",
		Check:  taintRuleConditions,
	},
})

func taintRuleSelector(rule *resourceapi.DeviceTaintRule, c Conditions) (errs field.ErrorList) {
	selector, at := rule.Spec.DeviceSelector, field.NewPath("spec", "deviceSelector")
	if selector == nil {
		return nil
	}
	if selector.Driver != nil {
		errs = append(errs, referredDriver(at.Child("driver"), *selector.Driver, c)...)
	}
	if selector.Pool != nil {
		errs = append(errs, referredPool(at.Child("pool"), *selector.Pool)...)
	}
	if selector.Device != nil {
		errs = append(errs, label(at.Child("device"), *selector.Device)...)
	}
	return errs
}

func taintRuleConditions(rule *resourceapi.DeviceTaintRule, c Conditions) field.ErrorList {
	if !c.Profile.Since(35) {
		return nil
	}
	list, at := rule.Status.Conditions, field.NewPath("status", "conditions")
	errs := atMost(at, len(list), resourceapi.DeviceTaintRuleStatusMaxConditions)
	return append(errs, conditions(at, list, c)...)
}

func taintRuleStatusPart(rule *resourceapi.DeviceTaintRule) metadata {
	return metadata{ObjectMeta: &rule.ObjectMeta, numbered: true}
}
