package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taintRuleGaps are the rules for DeviceTaintRules that no API server has.
var taintRuleGaps = Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-everything",
		Doc: `A DeviceTaintRule that evicts selects something.

deviceSelector: {} selects every device of the cluster, so with NoExecute the rule
removes every pod that uses a device, in all namespaces, whatever its priority. Name
a driver, pool or device. Where really everything is meant, the site sets this rule
to warning for as long as that takes.`,
		Class:  Gap,
		Server: "accepts it in 1.34 to 1.37; warns after 1.37",
		Source: "KEP-5055, DeviceTaintSelector; kubernetes issue 141422",
		Check:  taintRuleEverything,
	},
	{
		ID: "taint-rule-driver",
		Doc: `A DeviceTaintRule that names a pool or device names the driver too.

Pool and device names are chosen by drivers, most often the node's name and gpu-0, so
the rule hits the devices of other drivers as well. It only warns, since that may be
meant: everything on a node.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts it",
		Source:   "KEP-5055, DeviceTaintSelector",
		Check:    taintRuleDriver,
	},
}

func taintRuleEverything(rule *resourceapi.DeviceTaintRule, _ Conditions) field.ErrorList {
	selector := rule.Spec.DeviceSelector
	if rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute || selector == nil ||
		selector.Driver != nil || selector.Pool != nil || selector.Device != nil {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "deviceSelector"),
		"an empty selector with effect NoExecute evicts every pod of the cluster that uses a device; name a driver, pool or device")}
}

func taintRuleDriver(rule *resourceapi.DeviceTaintRule, _ Conditions) field.ErrorList {
	selector := rule.Spec.DeviceSelector
	if selector == nil || selector.Driver != nil || selector.Pool == nil && selector.Device == nil {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "deviceSelector", "driver"),
		"pools and devices of several drivers may have these names; name the driver")}
}

// classGaps are the rules for DeviceClasses that no API server has.
var classGaps = Table[*resourceapi.DeviceClass]{
	{
		ID: "class-everything",
		Doc: `A class selects something.

A class without a selector stands for every device of every driver: a claim for it
may get a GPU or a network card. It only warns, since a cluster with one driver may
want it so.`,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts it",
		Source:   "KEP-4381, DeviceClassSpec.Selectors",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			if len(class.Spec.Selectors) > 0 {
				return nil
			}
			return field.ErrorList{field.Required(field.NewPath("spec", "selectors"),
				"without a selector the class stands for the devices of all drivers")}
		},
	},
	{
		ID:       "selector-constant",
		Doc:      constantDoc,
		Class:    Gap,
		Severity: Warning,
		Server:   "accepts it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check: func(class *resourceapi.DeviceClass, _ Conditions) field.ErrorList {
			return constantSelectors(field.NewPath("spec", "selectors"), class.Spec.Selectors)
		},
	},
}
