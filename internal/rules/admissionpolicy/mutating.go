package admissionpolicy

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
)

const finalizerName = "dra-steward-claim-finalizer"

// impossibleDefaults are the defaults that CEL cannot express, or that need not be.
var impossibleDefaults = map[string]string{
	"taint-time-set":            "the API server does the same",
	"taint-time-renew":          "the API server does the same since 1.36",
	"taint-time-keep":           "an admission policy of the API server has no clock to tell a reset time from a chosen one",
	"taint-time-past":           "it only warns",
	"toleration-operator-equal": "the API server does the same",
	"toleration-rewrite":        "an admission policy of the API server cannot hash what it has to record",
	"drain-settings":            "a drain without them means the same",
}

// ExportDefaults writes the defaults of a site as MutatingAdmissionPolicies.
func ExportDefaults(o Options, settings v1alpha1.Defaults) (all []admissionv1.MutatingAdmissionPolicy, bindings []admissionv1.MutatingAdmissionPolicyBinding, left []Left) {
	for _, d := range mutate.Defaults() {
		switch reason, impossible := impossibleDefaults[d.ID]; {
		case d.ID == "toleration-rewrite" && settings.Tolerations == nil:
		case impossible:
			left = append(left, Left{d.ID, reason})
		case d.ID == "claim-finalizer":
			left = append(left, Left{d.ID, "the repair of allocated claims is left out; new claims get it"})
			if settings.Finalizer == "" || settings.Finalizer == v1alpha1.FinalizerCreate {
				all, bindings = append(all, o.finalizer()), append(bindings, finalizerBinding())
			}
		default:
			left = append(left, Left{d.ID, "has no form in CEL"})
		}
	}
	return all, bindings, left
}

func (o Options) finalizer() admissionv1.MutatingAdmissionPolicy {
	constraints := o.matched([]string{"ResourceClaim"})
	return admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metadata(finalizerName, nil),
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Ignore), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy, MatchConstraints: constraints,
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "without-the-finalizer", Expression: fmt.Sprintf("!(%q in object.metadata.?finalizers.orValue([]))", resourceapi.Finalizer)}},
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: fmt.Sprintf(
				`has(object.metadata.finalizers) ? [JSONPatch{op: "add", path: "/metadata/finalizers/-", value: %[1]q}] : `+
					`[JSONPatch{op: "add", path: "/metadata/finalizers", value: [%[1]q]}]`, resourceapi.Finalizer)}}},
		},
	}
}

func finalizerBinding() admissionv1.MutatingAdmissionPolicyBinding {
	return admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metadata(finalizerName, nil),
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: finalizerName},
	}
}
