package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
)

// A subject is a write with what its policies see of it, in the types of Go. Of it the
// input is built, as far as it is read.
type subject struct {
	Request
	in scope
	*devices
	// unreadable are the parts of the object that policies read and OPA cannot.
	unreadable []Failure
}

func subjectOf(req Request, in scope) *subject {
	return &subject{Request: req, in: in, devices: devicesOf(req.Object, req.World, req.Facts)}
}

func (s *subject) operation() string {
	if absent(s.Old) {
		return "CREATE"
	}
	return "UPDATE"
}

func (s *subject) author() Author {
	if s.GeneratedBy == "" {
		return User
	}
	return s.GeneratedBy
}

func (s *subject) namespaceLabels() map[string]string {
	if s.Facts == nil || s.Namespace == "" {
		return nil
	}
	return s.Facts.NamespaceLabels(s.Namespace)
}

// classes are those that the requests name.
func (s *subject) classes() *ast.Term {
	object := ast.NewObjectWithCapacity(len(s.demands))
	if s.World == nil {
		return ast.NewTerm(object)
	}
	for i := range s.demands {
		name := s.demands[i].class
		if i > 0 && name == s.demands[i-1].class {
			continue
		}
		if class := s.class(name); class != nil {
			object.Insert(text(name), knownKeys.object(truth(true), textMap(class.Labels), selectors(class.Spec.Selectors), extended(class)))
		} else {
			object.Insert(text(name), knownKeys.object(truth(false), textMap(nil), ast.ArrayTerm(), text("")))
		}
	}
	return ast.NewTerm(object)
}

// rule is the taint rule that is written, nil for other kinds.
func (s *subject) rule() *resourceapi.DeviceTaintRule {
	rule, _ := s.Object.(*resourceapi.DeviceTaintRule)
	return rule
}

// ruleSelector is that of the taint rule; nil if there is none.
func (s *subject) ruleSelector() *resourceapi.DeviceTaintSelector {
	if rule := s.rule(); rule != nil {
		return rule.Spec.DeviceSelector
	}
	return nil
}

// oldRule is the taint rule that is stored, nil if there is none.
func (s *subject) oldRule() *resourceapi.DeviceTaintRule {
	if s.rule() == nil {
		return nil
	}
	old, _ := s.Old.(*resourceapi.DeviceTaintRule)
	return old
}

// valueFields are values of the input that guards look at, by their references.
var valueFields = map[string]func(*subject) scalar{
	"operation":                  func(s *subject) scalar { return textOf(s.operation()) },
	"kind":                       func(s *subject) scalar { return textOf(s.Kind) },
	"namespace":                  func(s *subject) scalar { return textOf(s.Namespace) },
	"generatedBy":                func(s *subject) scalar { return textOf(s.author()) },
	"dryRun":                     func(s *subject) scalar { return truthOf(s.DryRun) },
	"user.name":                  func(s *subject) scalar { return textOf(s.User) },
	"impact.devices":             func(s *subject) scalar { return s.hit(func(i *Impact) int { return i.Devices }) },
	"impact.driverDevices":       func(s *subject) scalar { return s.hit(func(i *Impact) int { return i.DriverDevices }) },
	"impact.claims":              func(s *subject) scalar { return s.hit(func(i *Impact) int { return i.Claims }) },
	"impact.pods":                func(s *subject) scalar { return s.hit(func(i *Impact) int { return i.Pods }) },
	"impact.namespaces":          func(s *subject) scalar { return s.hit(func(i *Impact) int { return i.Namespaces }) },
	"taintRule.key":              func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return t.Key }) },
	"taintRule.value":            func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return t.Value }) },
	"taintRule.effect":           func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return string(t.Effect) }) },
	"taintRule.old.key":          func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return t.Key }) },
	"taintRule.old.value":        func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return t.Value }) },
	"taintRule.old.effect":       func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return string(t.Effect) }) },
	"taintRule.previewed":        func(s *subject) scalar { return s.ofRule(truthOf(s.rule() != nil && previewed(s.oldRule(), s.rule()))) },
	"taintRule.selector.present": func(s *subject) scalar { return s.ofRule(truthOf(s.ruleSelector() != nil)) },
	"taintRule.selector.empty":   func(s *subject) scalar { return s.ofRule(truthOf(selectsAll(s.ruleSelector()))) },
}

type taint = resourceapi.DeviceTaint

// ofRule is a value of the taint rule, if the write is of one.
func (s *subject) ofRule(value scalar) scalar {
	if s.rule() == nil {
		return scalar{}
	}
	return value
}

func (s *subject) taint(rule *resourceapi.DeviceTaintRule, of func(taint) string) scalar {
	if rule == nil {
		return scalar{}
	}
	return textOf(of(rule.Spec.Taint))
}

func (s *subject) hit(of func(*Impact) int) scalar {
	if s.Impact == nil {
		return scalar{}
	}
	return numberOf(int64(of(s.Impact)))
}
