package policy

import (
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
)

// inputVersion is that of policies/input.schema.json.
const inputVersion = "policy.dra-steward.io/v1"

var (
	inputKeys = keysOf("apiVersion", "operation", "kind", "namespace", "namespaceLabels", "user", "generatedBy", "dryRun",
		"parameters", "claim", "classes", "tolerations", "tolerationLists", "configs", "taintRule", "impact", "class", "slice", "has",
		"name", "now", "raw")
	userKeys  = keysOf("name", "groups")
	claimKeys = keysOf("requests")
	classKeys = keysOf("selectors", "extendedResourceName")
	knownKeys = keysOf("known", "labels", "selectors", "extendedResourceName")
	sliceKeys = keysOf("driver", "pool", "taints")
	taintKeys = keysOf("key", "value", "effect", "paths")
)

// input builds what the policies see, as policies/input.schema.json describes it.
func input(req Request, in scope, group *group) ast.Value {
	generatedBy := req.GeneratedBy
	if generatedBy == "" {
		generatedBy = User
	}
	operation := "CREATE"
	if !absent(req.Old) {
		operation = "UPDATE"
	}
	var labels map[string]string
	if req.Facts != nil && req.Namespace != "" {
		labels = req.Facts.NamespaceLabels(req.Namespace)
	}
	devices := devicesOf(req)
	var name, now, raw *ast.Term
	if group.reads.name {
		name = text(req.Name)
	}
	if group.reads.now {
		now = text(req.Now.UTC().Format(time.RFC3339Nano))
	}
	if group.reads.raw {
		raw = parsed(req.Raw)
	}
	return inputKeys.object(text(inputVersion), text(operation), text(req.Kind), text(req.Namespace), textMap(labels),
		userKeys.object(text(req.User), texts(req.Groups)), text(generatedBy), truth(req.DryRun),
		in.parameters, claimKeys.object(ast.ArrayTerm(devices.requests...)), devices.classes(req), ast.ArrayTerm(devices.distinct()...),
		ast.ArrayTerm(devices.lists...), ast.ArrayTerm(configs(req)...), taintRule(req), impact(req.Impact), class(req.Object), slice(req.Object), devices.has(),
		name, now, raw).Value
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
