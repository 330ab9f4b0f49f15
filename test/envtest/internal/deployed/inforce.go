package deployed

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PoliciesInForce waits until the API server applies the admission policies that are there. It
// learns of new ones about once a second, in the order of their creation: so one more policy,
// created last and deleted at the end, tells that all are in force. name is used once.
func PoliciesInForce(ctx context.Context, c client.Client, name string) error {
	labels := map[string]string{"dra-steward.io/probe": name}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: labels},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "in force"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	always := context.WithoutCancel(ctx)
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(ctx, object); err != nil {
			return err
		}
		defer func() { _ = c.Delete(always, object) }()
	}
	return poll(ctx, func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: labels}}
		err := c.Create(ctx, probe, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("policy %s is not in force", name)
		}
		if strings.Contains(err.Error(), "in force") {
			return nil
		}
		return err
	})
}
