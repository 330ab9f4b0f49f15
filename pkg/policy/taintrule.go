package policy

import (
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	blast "github.com/dra-steward/dra-steward/internal/guard"
)

var (
	ruleKeys     = keysOf("key", "value", "effect", "age", "timeChanged", "selector", "previewed", "acknowledged", "old")
	storedKeys   = keysOf("key", "value", "effect", "selector")
	selectorKeys = keysOf("present", "empty", "driver", "pool", "device")
)

func taintRule(req Request) *ast.Term {
	rule, is := req.Object.(*resourceapi.DeviceTaintRule)
	if !is {
		return ast.NullTerm()
	}
	stored, old := ast.NullTerm(), (*resourceapi.DeviceTaintRule)(nil)
	if o, is := req.Old.(*resourceapi.DeviceTaintRule); is && o != nil {
		old = o
		stored = storedKeys.object(text(o.Spec.Taint.Key), text(o.Spec.Taint.Value), text(o.Spec.Taint.Effect), deviceSelector(o.Spec.DeviceSelector))
	}
	age := ast.NullTerm()
	if rule.Spec.Taint.TimeAdded != nil {
		age = whole(int64(req.Now.Sub(rule.Spec.Taint.TimeAdded.Time) / time.Second))
	}
	taint := rule.Spec.Taint
	return ruleKeys.object(text(taint.Key), text(taint.Value), text(taint.Effect), age, truth(old == nil || !old.Spec.Taint.TimeAdded.Equal(taint.TimeAdded)), deviceSelector(rule.Spec.DeviceSelector),
		truth(previewed(old, rule)), truth(blast.AcknowledgesPods(rule.Annotations)), stored)
}

// previewed tells whether the stored rule was the preview of what is written: the same
// taint and devices without an effect, and a controller has said what it would do.
func previewed(old, rule *resourceapi.DeviceTaintRule) bool {
	if old == nil || old.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNone ||
		old.Spec.Taint.Key != rule.Spec.Taint.Key || old.Spec.Taint.Value != rule.Spec.Taint.Value ||
		!apiequality.Semantic.DeepEqual(old.Spec.DeviceSelector, rule.Spec.DeviceSelector) {
		return false
	}
	for _, condition := range old.Status.Conditions {
		if condition.ObservedGeneration == old.Generation {
			return true
		}
	}
	return false
}

func deviceSelector(selector *resourceapi.DeviceTaintSelector) *ast.Term {
	if selector == nil {
		return selectorKeys.object(truth(false), truth(false), text(""), text(""), text(""))
	}
	value := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return selectorKeys.object(truth(true), truth(selectsAll(selector)), text(value(selector.Driver)), text(value(selector.Pool)), text(value(selector.Device)))
}

// selectsAll tells whether a selector is there and names nothing.
func selectsAll(s *resourceapi.DeviceTaintSelector) bool {
	return s != nil && s.Driver == nil && s.Pool == nil && s.Device == nil
}
