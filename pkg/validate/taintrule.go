package validate

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// taintRuleGaps are the rules for DeviceTaintRules that no API server has.
var taintRuleGaps = Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-everything",
		Doc: `A DeviceTaintRule with effect NoExecute has a selector that is not empty.

deviceSelector: {} selects every device of the cluster, so with NoExecute the rule evicts
every pod that uses a device, in all namespaces, whatever its priority. Name a driver, pool
or device. If you do mean every device, set the annotation
dra-steward.io/acknowledged-impact to the maximum number of pods (pods<=120); the guard of
the webhook counts them.`,
		Upstream: "accepts it in 1.34 to 1.37; warns after 1.37",
		Source:   "KEP-5055, DeviceTaintSelector; kubernetes issue 141422",
		Check:    taintRuleEverything,
	},
	{
		ID: "taint-rule-driver",
		Doc: `A DeviceTaintRule that names a pool or device also names the driver.

Drivers choose the names of pools and devices, often the name of the node and gpu-0, so the
rule also taints devices of other drivers. It only warns, because that can be the intention:
all devices of a node.`,
		Severity: Warning,
		Upstream: "accepts it",
		Source:   "KEP-5055, DeviceTaintSelector",
		Check:    taintRuleDriver,
	},
	{
		ID: "taint-rule-acknowledgement",
		Doc: `The acknowledged impact of a DeviceTaintRule has a valid form.

The annotation dra-steward.io/acknowledged-impact limits the impact of a rule with effect
NoExecute, such as pods<=120,namespaces<=4. The keys are devices, claims, pods and
namespaces, each at most once. An annotation with another form acknowledges nothing.`,
		Upstream: "does not know it",
		Source:   "the guard of dra-steward",
		Check:    taintRuleAcknowledgement,
	},
	{
		ID: "taint-rule-expiry",
		Doc: `The annotation for the expiry of a DeviceTaintRule is a time.

The controller deletes a rule at the time in its annotation dra-steward.io/expires, such as
2026-12-31T18:00:00Z. With any other text the rule stays, and only the log of the controller
says so. It only warns, because the taint takes effect without it.`,
		Severity: Warning,
		Upstream: "does not know it",
		Source:   "the controller ruleexpiry of dra-steward",
		Check:    taintRuleExpiry,
	},
}

func taintRuleEverything(rule *resourceapi.DeviceTaintRule, _ Pass) field.ErrorList {
	selector := rule.Spec.DeviceSelector
	if rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute ||
		!guard.Everything(selector) || guard.AcknowledgesPods(rule.Annotations) {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "deviceSelector"),
		"an empty selector with effect NoExecute evicts every pod of the cluster that uses a device; name a driver, pool or device")}
}

func taintRuleAcknowledgement(rule *resourceapi.DeviceTaintRule, _ Pass) field.ErrorList {
	if _, err := guard.Acknowledged(rule.Annotations); err != nil {
		return field.ErrorList{guard.AcknowledgementError(rule.Annotations, err)}
	}
	return nil
}

func taintRuleExpiry(rule *resourceapi.DeviceTaintRule, _ Pass) field.ErrorList {
	text, has := rule.Annotations[v1alpha1.ExpiresAnnotation]
	if _, err := time.Parse(time.RFC3339, text); !has || err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(v1alpha1.ExpiresAnnotation), text,
		"must be a time such as 2026-12-31T18:00:00Z; the rule does not expire")}
}

func taintRuleDriver(rule *resourceapi.DeviceTaintRule, _ Pass) field.ErrorList {
	selector := rule.Spec.DeviceSelector
	if selector == nil || selector.Driver != nil || selector.Pool == nil && selector.Device == nil {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "deviceSelector", "driver"),
		"pools and devices of several drivers can have these names; name the driver")}
}
