package admissionpolicy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// maxMessage is the longest message that the API server takes.
const maxMessage = 4096

// defaultTolerations is the default of [policy.Limits].
const defaultTolerations = 512

// variables are what the expressions of admission.yaml may refer to, in addition to their
// parameters as parameter_<name>. They are written in this order, if they are used.
//
// The time that the API server takes for a list grows with the square of its length, and it
// checks lengths after admission only. Lists that it then refuses are empty here.
var variables = []admissionv1.Variable{
	{Name: "written", Expression: "(request.kind.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec).?devices.?requests.orValue([])"},
	{Name: "requests", Expression: fmt.Sprintf("size(variables.written) > %d ? [] : variables.written", resourceapi.DeviceRequestsMaxSize)},
	// asked has what every request asks for: one, or the alternatives.
	{Name: "asked", Expression: fmt.Sprintf("variables.requests.map(r, has(r.exactly) ? [r.exactly] : size(r.?firstAvailable.orValue([])) > %d ? [] : r.?firstAvailable.orValue([]))", resourceapi.FirstAvailableDeviceRequestMaxSize)},
	{Name: "listed", Expression: "variables.asked.map(one, one.map(a, size(a.?tolerations.orValue([]))).sum()).sum()"},
	{Name: "tolerations", Expression: "variables.listed > variables.most ? [] : variables.asked.map(one, one.map(a, a.?tolerations.orValue([])))"},
	// ordinary has the tolerations of requests without admin access.
	{Name: "ordinary", Expression: "variables.listed > variables.most ? [] : variables.asked.map(one, one.filter(a, !a.?adminAccess.orValue(false)).map(a, a.?tolerations.orValue([])))"},
	// evicts: the rule evicts, and it is not one that has evicted at least these devices
	// for the same taint before.
	{Name: "evicts", Expression: "object.spec.taint.effect == 'NoExecute' && has(object.spec.deviceSelector) && " +
		"!(oldObject != null && oldObject.spec.taint.effect == 'NoExecute' && oldObject.spec.taint.key == object.spec.taint.key && " +
		"oldObject.spec.taint.?value.orValue('') == object.spec.taint.?value.orValue('') && has(oldObject.spec.deviceSelector) && " +
		covers("driver") + " && " + covers("pool") + " && " + covers("device") + ")"},
}

func covers(name string) string {
	old := "oldObject.spec.deviceSelector.?" + name + ".orValue('')"
	return "(" + old + " == '' || " + old + " == object.spec.deviceSelector.?" + name + ".orValue(''))"
}

func (o Options) policy(p part, m policy.Metadata, r rules, s scope, exempt []admissionv1.MatchCondition) (admissionv1.ValidatingAdmissionPolicy, error) {
	out := admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metadata(p.name, map[string]string{codeLabel: m.Code}),
	}
	out.Annotations = map[string]string{"dra-steward.io/title": m.Title}
	out.Spec.FailurePolicy = new(p.failurePolicy(s.mode))
	out.Spec.MatchConstraints = o.matched(p.kinds)
	out.Spec.MatchConditions = slices.Concat(o.checked(s), p.written(), exempt)
	for _, v := range r.Violations {
		out.Spec.Validations = append(out.Spec.Validations, validation(m, v.When, v.Message))
	}
	for _, parameter := range s.parameterNames() {
		value, err := celLiteral(s.parameters[parameter])
		if err != nil {
			return out, fmt.Errorf("parameter %s: %w", parameter, err)
		}
		out.Spec.Variables = append(out.Spec.Variables, admissionv1.Variable{Name: "parameter_" + parameter, Expression: value})
	}
	most := admissionv1.Variable{Name: "most", Expression: strconv.Itoa(cmp.Or(o.Tolerations, defaultTolerations))}
	out.Spec.Variables = used(out.Spec.Validations, slices.Concat(out.Spec.Variables, []admissionv1.Variable{most}, variables))
	if slices.ContainsFunc(out.Spec.Variables, func(v admissionv1.Variable) bool { return v.Name == most.Name }) {
		out.Spec.Validations = append(out.Spec.Validations, validation(m, "variables.listed > variables.most", fmt.Sprintf(
			"there are more than %s tolerations in all requests, which takes too long to check; write fewer", most.Expression)))
	}
	return out, nil
}

func validation(m policy.Metadata, when, message string) admissionv1.Validation {
	return admissionv1.Validation{
		Expression: "!(" + when + ")", Message: short(message + " (dra-steward policy " + m.Code + ")"), Reason: new(metav1.StatusReasonInvalid),
	}
}

// used leaves out the variables that nothing refers to.
func used(validations []admissionv1.Validation, all []admissionv1.Variable) (kept []admissionv1.Variable) {
	var text strings.Builder
	for _, v := range validations {
		text.WriteString(v.Expression + "\n")
	}
	for i := range all {
		v := all[len(all)-1-i]
		if strings.Contains(text.String(), "variables."+v.Name) {
			text.WriteString(v.Expression + "\n")
			kept = append([]admissionv1.Variable{v}, kept...)
		}
	}
	return kept
}

var resources = map[string]struct {
	name     string
	versions []string
	update   bool
}{
	"ResourceClaim":         {name: "resourceclaims", versions: []string{"v1"}},
	"ResourceClaimTemplate": {name: "resourceclaimtemplates", versions: []string{"v1"}},
	"DeviceClass":           {name: "deviceclasses", versions: []string{"v1"}, update: true},
	"ResourceSlice":         {name: "resourceslices", versions: []string{"v1"}, update: true},
	"DeviceTaintRule":       {name: "devicetaintrules", versions: []string{"v1", "v1beta2", "v1alpha3"}, update: true},
}

// matched leaves out updates of claims and templates, whose specs are immutable.
func (o Options) matched(kinds []string) *admissionv1.MatchResources {
	out := &admissionv1.MatchResources{MatchPolicy: new(admissionv1.Equivalent)}
	if len(o.ExcludedNamespaces) > 0 {
		out.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: o.ExcludedNamespaces}}}
	}
	for _, kind := range kinds {
		resource := resources[kind]
		operations := []admissionv1.OperationType{admissionv1.Create}
		if resource.update {
			operations = append(operations, admissionv1.Update)
		}
		out.ResourceRules = append(out.ResourceRules, admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{"resource.k8s.io"}, APIVersions: resource.versions, Resources: []string{resource.name}},
		}})
	}
	return out
}

// requestNamespace is the namespace of the object, or "": requests for objects of the cluster do
// not have the field.
const requestNamespace = "request.?namespace.orValue('')"

// checked returns the conditions of the writes that a scope is about.
func (o Options) checked(s scope) (conditions []admissionv1.MatchCondition) {
	if len(o.SystemUsers) > 0 {
		conditions = append(conditions, admissionv1.MatchCondition{
			Name: "not-a-component-of-kubernetes", Expression: "!(request.userInfo.username in " + literal(o.SystemUsers) + ")"})
	}
	if len(s.namespaces) > 0 {
		expression := requestNamespace + " in " + literal(s.namespaces)
		if s.others {
			expression = "!(" + expression + ")"
		}
		conditions = append(conditions, admissionv1.MatchCondition{Name: "namespaces", Expression: expression})
	}
	return conditions
}

var actions = map[policy.Mode]admissionv1.ValidationAction{
	policy.Audit: admissionv1.Audit, policy.Warn: admissionv1.Warn, policy.Deny: admissionv1.Deny,
}

func binding(name string, m policy.Metadata, mode policy.Mode) admissionv1.ValidatingAdmissionPolicyBinding {
	return admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metadata(name, map[string]string{codeLabel: m.Code}),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{actions[mode]},
		},
	}
}

// codeLabel has the code of the policy that an object was made of.
const codeLabel = "dra-steward.io/policy-code"

func metadata(name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{"app.kubernetes.io/part-of": "dra-steward"}
	maps.Copy(all, labels)
	return metav1.ObjectMeta{Name: name, Labels: all}
}

func short(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
}

// literal writes names in CEL.
func literal(names []string) string {
	text, err := celLiteral(names)
	if err != nil {
		return "[]" // strings always have a form
	}
	return text
}

// celLiteral writes a value in CEL, which has the literals of JSON.
func celLiteral(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(out.String()), err
}
