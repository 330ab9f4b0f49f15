package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// inputVersion is that of policies/input.schema.json.
const inputVersion = "policy.dra-steward.io/v1"

var (
	userKeys  = keysOf("name", "groups")
	claimKeys = keysOf("requests")
	classKeys = keysOf("selectors", "extendedResourceName")
	knownKeys = keysOf("known", "labels", "selectors", "selectsAll", "extendedResourceName")
	sliceKeys = keysOf("driver", "pool", "taints")
	taintKeys = keysOf("key", "value", "effect", "paths")
)

// An inputField is a field of the input as policies/input.schema.json describes it.
type inputField struct {
	name string
	key  *ast.Term
	make func(s *subject) *ast.Term
}

func inputFieldOf(name string, make func(*subject) *ast.Term) inputField {
	return inputField{name, ast.StringTerm(name), make}
}

// inputFields are the fields of the input; the place of one is its bit in a fields.
var inputFields = []inputField{
	inputFieldOf("apiVersion", func(*subject) *ast.Term { return text(inputVersion) }),
	inputFieldOf("operation", func(s *subject) *ast.Term { return text(s.operation()) }),
	inputFieldOf("kind", func(s *subject) *ast.Term { return text(s.Kind) }),
	inputFieldOf("namespace", func(s *subject) *ast.Term { return text(s.Namespace) }),
	inputFieldOf("namespaceLabels", func(s *subject) *ast.Term { return textMap(s.namespaceLabels()) }),
	inputFieldOf("user", func(s *subject) *ast.Term { return userKeys.object(text(s.User), texts(s.Groups)) }),
	inputFieldOf("generatedBy", func(s *subject) *ast.Term { return text(s.author()) }),
	inputFieldOf("dryRun", func(s *subject) *ast.Term { return truth(s.DryRun) }),
	inputFieldOf("parameters", func(s *subject) *ast.Term { return s.in.parameters }),
	inputFieldOf("claim", func(s *subject) *ast.Term { return claimKeys.object(s.requestTerms()) }),
	inputFieldOf("classes", func(s *subject) *ast.Term { return s.classes() }),
	inputFieldOf("tolerations", func(s *subject) *ast.Term { return s.tolerationTerms() }),
	inputFieldOf("tolerationLists", func(s *subject) *ast.Term { return s.listTerms() }),
	inputFieldOf("configs", func(s *subject) *ast.Term { return ast.ArrayTerm(s.configs()...) }),
	inputFieldOf("taintRule", func(s *subject) *ast.Term { return taintRule(s.Request) }),
	inputFieldOf("impact", func(s *subject) *ast.Term { return impact(s.Impact) }),
	inputFieldOf("class", func(s *subject) *ast.Term { return class(s.Object) }),
	inputFieldOf("slice", func(s *subject) *ast.Term { return slice(s.Object) }),
	inputFieldOf("name", func(s *subject) *ast.Term { return text(s.Name) }),
	inputFieldOf("now", func(s *subject) *ast.Term { return text(s.Now.UTC().Format(time.RFC3339Nano)) }),
	inputFieldOf("raw", func(s *subject) *ast.Term { return s.parsed("", s.Raw) }),
}

// input builds the fields of the input that policies read.
func (s *subject) input(read fields) ast.Value {
	object := ast.NewObjectWithCapacity(len(inputFields))
	for i := range inputFields {
		if read.any(1 << i) {
			object.Insert(inputFields[i].key, inputFields[i].make(s))
		}
	}
	return object
}

// absent reports whether there is no object; a typed nil pointer is no object either.
func absent(object any) bool {
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		return object == nil
	case *resourceapi.ResourceClaimTemplate:
		return object == nil
	case *resourceapi.DeviceClass:
		return object == nil
	case *resourceapi.ResourceSlice:
		return object == nil
	case *resourceapi.DeviceTaintRule:
		return object == nil
	case *v1alpha1.DeviceDrain:
		return object == nil
	case *v1alpha1.DeviceReaction:
		return object == nil
	case *v1alpha1.DeviceRoll:
		return object == nil
	default:
		return true
	}
}

func class(object any) *ast.Term {
	class, is := object.(*resourceapi.DeviceClass)
	if !is {
		return ast.NullTerm()
	}
	return classKeys.object(selectors(class.Spec.Selectors), extended(class))
}

func extended(class *resourceapi.DeviceClass) *ast.Term {
	if class.Spec.ExtendedResourceName == nil {
		return text("")
	}
	return text(*class.Spec.ExtendedResourceName)
}

func selectors(all []resourceapi.DeviceSelector) *ast.Term {
	terms := make([]*ast.Term, 0, len(all))
	for _, selector := range all {
		expression := ""
		if selector.CEL != nil {
			expression = selector.CEL.Expression
		}
		terms = append(terms, text(expression))
	}
	return ast.ArrayTerm(terms...)
}

func slice(object any) *ast.Term {
	slice, is := object.(*resourceapi.ResourceSlice)
	if !is {
		return ast.NullTerm()
	}
	type taint struct{ key, value, effect string }
	var order []taint
	places := map[taint][]*ast.Term{}
	for i, device := range slice.Spec.Devices {
		for j, t := range device.Taints {
			one := taint{t.Key, t.Value, string(t.Effect)}
			if places[one] == nil {
				order = append(order, one)
			}
			places[one] = append(places[one], ast.StringTerm(item("spec.devices", device.Name, i)+".taints["+itoa(j)+"]"))
		}
	}
	var taints []*ast.Term
	for _, t := range order {
		taints = append(taints, taintKeys.object(text(t.key), text(t.value), text(t.effect), ast.ArrayTerm(places[t]...)))
	}
	return sliceKeys.object(text(slice.Spec.Driver), text(slice.Spec.Pool.Name), ast.ArrayTerm(taints...))
}

// A subject is a write in Go types. The input is built from it, as far as policies read it.
type subject struct {
	Request
	in scope
	*devices
	// unreadable are the parts of the object that policies read and OPA cannot.
	unreadable []Failure
}

func subjectOf(req Request, in scope) *subject {
	return &subject{Request: req, in: in, devices: devicesOf(req.Object, req.ClusterView, req.ClusterData)}
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
	if s.ClusterData == nil || s.Namespace == "" {
		return nil
	}
	return s.ClusterData.NamespaceLabels(s.Namespace)
}

// classes are those that the requests name.
func (s *subject) classes() *ast.Term {
	object := ast.NewObjectWithCapacity(len(s.requests))
	if s.ClusterView == nil {
		return ast.NewTerm(object)
	}
	for i := range s.requests {
		name := s.requests[i].class
		if i > 0 && name == s.requests[i-1].class {
			continue
		}
		if class := s.class(name); class != nil {
			object.Insert(text(name), knownKeys.object(truth(true), textMap(class.Labels), selectors(class.Spec.Selectors), truth(unselective(class)), extended(class)))
		} else {
			object.Insert(text(name), knownKeys.object(truth(false), textMap(nil), ast.ArrayTerm(), truth(false), text("")))
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

// valueFields are the values of the input that prefilters read, by their references.
var valueFields = map[string]func(*subject) scalar{
	"operation":                  func(s *subject) scalar { return textOf(s.operation()) },
	"kind":                       func(s *subject) scalar { return textOf(s.Kind) },
	"namespace":                  func(s *subject) scalar { return textOf(s.Namespace) },
	"generatedBy":                func(s *subject) scalar { return textOf(s.author()) },
	"dryRun":                     func(s *subject) scalar { return truthOf(s.DryRun) },
	"user.name":                  func(s *subject) scalar { return textOf(s.User) },
	"impact.devices":             func(s *subject) scalar { return s.hit(func(i *guard.Impact) int { return i.Devices }) },
	"impact.driverDevices":       func(s *subject) scalar { return s.hit(func(i *guard.Impact) int { return i.DriverDevices }) },
	"impact.claims":              func(s *subject) scalar { return s.hit(func(i *guard.Impact) int { return i.Claims }) },
	"impact.pods":                func(s *subject) scalar { return s.hit(func(i *guard.Impact) int { return i.Pods }) },
	"impact.namespaces":          func(s *subject) scalar { return s.hit(func(i *guard.Impact) int { return i.Namespaces }) },
	"taintRule.key":              func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return t.Key }) },
	"taintRule.value":            func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return t.Value }) },
	"taintRule.effect":           func(s *subject) scalar { return s.taint(s.rule(), func(t taint) string { return string(t.Effect) }) },
	"taintRule.old.key":          func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return t.Key }) },
	"taintRule.old.value":        func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return t.Value }) },
	"taintRule.old.effect":       func(s *subject) scalar { return s.taint(s.oldRule(), func(t taint) string { return string(t.Effect) }) },
	"taintRule.previewed":        func(s *subject) scalar { return s.ofRule(truthOf(s.previewed(s.oldRule(), s.rule()))) },
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

func (s *subject) hit(of func(*guard.Impact) int) scalar {
	if s.Impact == nil {
		return scalar{}
	}
	return numberOf(int64(of(s.Impact)))
}

var (
	configKeys  = keysOf("driver", "apiVersion", "kind", "parameters", "driverKnown", "known", "problems", "paths")
	problemKeys = keysOf("path", "message")
)

// opaqueConfig is one opaque configuration with its place.
type opaqueConfig struct {
	*resourceapi.OpaqueDeviceConfiguration
	path string
}

func opaqueConfigs(object any) (all []opaqueConfig) {
	if class, is := object.(*resourceapi.DeviceClass); is {
		for i := range class.Spec.Config {
			all = append(all, opaqueConfig{class.Spec.Config[i].Opaque, "spec.config[" + itoa(i) + "].opaque"})
		}
	}
	if spec, base := specOf(object); spec != nil {
		for i := range spec.Devices.Config {
			all = append(all, opaqueConfig{spec.Devices.Config[i].Opaque, base + ".devices.config[" + itoa(i) + "].opaque"})
		}
	}
	return all
}

// configs are the distinct opaque configurations.
func (s *subject) configs() (terms []*ast.Term) {
	type id struct{ driver, parameters string }
	var order []opaqueConfig
	paths := map[id][]string{}
	for _, config := range opaqueConfigs(s.Object) {
		if config.OpaqueDeviceConfiguration == nil {
			continue
		}
		key := id{config.Driver, string(config.Parameters.Raw)}
		if paths[key] == nil {
			order = append(order, config)
		}
		paths[key] = append(paths[key], config.path)
	}
	for _, config := range order {
		terms = append(terms, s.config(config, paths[id{config.Driver, string(config.Parameters.Raw)}]))
	}
	return terms
}

func (s *subject) config(c opaqueConfig, paths []string) *ast.Term {
	schemas := s.Parameters
	var problems []*ast.Term
	driverKnown := schemas != nil && schemas.KnowsDriver(c.Driver)
	known := driverKnown
	if driverKnown {
		at := field.NewPath("parameters")
		found := schemas.Check(at, c.Driver, c.Parameters.Raw)
		known = len(found.Kind) == 0
		for _, err := range slices.Concat(found.Unreadable, found.Fields, found.Choices, found.Values) {
			path := strings.TrimPrefix(strings.TrimPrefix(err.Field, "parameters"), ".")
			problems = append(problems, problemKeys.object(text(path), ast.StringTerm(err.ErrorBody())))
		}
	}
	parameters := s.parsed(c.path+".parameters", c.Parameters.Raw)
	return configKeys.object(text(c.Driver), stringField(parameters, "apiVersion"), stringField(parameters, "kind"), parameters,
		truth(driverKnown), truth(known), ast.ArrayTerm(problems...), texts(paths))
}

func stringField(object *ast.Term, name string) *ast.Term {
	if fields, is := object.Value.(ast.Object); is {
		if value := fields.Get(ast.StringTerm(name)); value != nil {
			if _, is := value.Value.(ast.String); is {
				return value
			}
		}
	}
	return text("")
}

var (
	impactKeys = keysOf("devices", "driverDevices", "claims", "pods", "namespaces", "everything", "namespaceNames", "budgets", "stranded", "acknowledged", "acknowledge")
	budgetKeys = keysOf("namespace", "name", "pods", "allowed")
)

func impact(i *guard.Impact) *ast.Term {
	if i == nil {
		return ast.NullTerm()
	}
	number := func(n int) *ast.Term { return whole(int64(n)) }
	budgets := make([]*ast.Term, 0, len(i.Budgets))
	for _, b := range i.Budgets {
		budgets = append(budgets, budgetKeys.object(text(b.Namespace), text(b.Name), number(b.Pods), number(b.Allowed)))
	}
	acknowledged := ast.NewObject()
	if i.Acknowledged != nil {
		for what, limit := range i.Acknowledged.Limits() {
			acknowledged.Insert(text(what), number(limit))
		}
	}
	stranded := ast.NullTerm()
	if i.Stranded.Known() {
		stranded = number(i.Stranded.Pods)
	}
	return impactKeys.object(number(i.Devices), number(i.DriverDevices), number(i.Claims), number(i.Pods), number(i.Namespaces),
		truth(i.Everything), texts(i.NamespaceNames), ast.ArrayTerm(budgets...), stranded, ast.NewTerm(acknowledged), text(i.Acknowledge().Annotate()))
}

var (
	ruleKeys     = keysOf("key", "value", "effect", "timeAdded", "age", "timeChanged", "selector", "previewed", "acknowledged", "old", "annotations")
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
	age, added := ast.NullTerm(), ""
	if rule.Spec.Taint.TimeAdded != nil {
		added = rule.Spec.Taint.TimeAdded.UTC().Format(time.RFC3339)
		age = whole(int64(req.Now.Sub(rule.Spec.Taint.TimeAdded.Time) / time.Second))
	}
	taint := rule.Spec.Taint
	return ruleKeys.object(text(taint.Key), text(taint.Value), text(taint.Effect), text(added), age, truth(old == nil || !old.Spec.Taint.TimeAdded.Equal(taint.TimeAdded)), deviceSelector(rule.Spec.DeviceSelector),
		truth(req.previewed(old, rule)), truth(guard.AcknowledgesPods(rule.Annotations)), stored, annotations(rule.Annotations))
}

// previewed reports whether the stored rule was the preview of what is written: the same
// taint and devices without an effect, and its status has the pods that it will evict.
func (r Request) previewed(old, rule *resourceapi.DeviceTaintRule) bool {
	if r.WithoutPreviews {
		return true
	}
	if rule == nil || old == nil || old.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNone ||
		old.Spec.Taint.Key != rule.Spec.Taint.Key || old.Spec.Taint.Value != rule.Spec.Taint.Value ||
		!apiequality.Semantic.DeepEqual(old.Spec.DeviceSelector, rule.Spec.DeviceSelector) {
		return false
	}
	// Other conditions, such as guard.BeganCondition, have no number of pods.
	condition := apimeta.FindStatusCondition(old.Status.Conditions, resourceapi.DeviceTaintConditionEvictionInProgress)
	return condition != nil && condition.ObservedGeneration == old.Generation
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

// selectsAll reports whether a selector is present and names nothing.
func selectsAll(s *resourceapi.DeviceTaintSelector) bool {
	return s != nil && s.Driver == nil && s.Pool == nil && s.Device == nil
}
