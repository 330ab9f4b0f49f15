package policy

import (
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// inputVersion is that of policies/input.schema.json.
const inputVersion = "policy.dra-steward.io/v1"

var (
	userKeys  = keysOf("name", "groups")
	claimKeys = keysOf("requests")
	classKeys = keysOf("selectors", "extendedResourceName")
	knownKeys = keysOf("known", "labels", "selectors", "extendedResourceName")
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

// absent tells whether there is no object; a typed nil pointer is none either.
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
