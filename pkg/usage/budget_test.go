package usage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTrimBudget: a selector of usual size is kept. One that is large, whatever its form, selects all pods, so that
// neither its memory nor its comparison with each pod is what its author wants.
func TestTrimBudget(t *testing.T) {
	in := func(values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprintf("%060d", i)
	}
	names := map[string]string{}
	for _, value := range long {
		names[value] = ""
	}
	for name, tt := range map[string]struct {
		selector *metav1.LabelSelector
		all      bool
	}{
		"none":                     {nil, false},
		"all":                      {&metav1.LabelSelector{}, true},
		"a label":                  {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, false},
		"an expression":            {in("web", "db"), false},
		"as large as can be":       {in(make([]string, maxSelectorTerms-1)...), false},
		"700,000 empty values":     {in(make([]string, 700_000)...), true},
		"long values":              {in(long...), true},
		"labels":                   {&metav1.LabelSelector{MatchLabels: names}, true},
		"a long key":               {&metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("%017000d", 0): ""}}, true},
		"expressions without ends": {&metav1.LabelSelector{MatchExpressions: make([]metav1.LabelSelectorRequirement, 300)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Generation: 7, OwnerReferences: make([]metav1.OwnerReference, 1000)},
				Spec:   policyv1.PodDisruptionBudgetSpec{Selector: tt.selector},
				Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 6, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, DisruptedPods: map[string]metav1.Time{"a": {}}}}
			object, err := Trim(stored)
			if err != nil {
				t.Fatal(err)
			}
			kept := object.(*policyv1.PodDisruptionBudget)
			if all := kept.Spec.Selector != nil && len(kept.Spec.Selector.MatchLabels)+len(kept.Spec.Selector.MatchExpressions) == 0; all != tt.all {
				t.Errorf("it selects all pods: %v, want %v", all, tt.all)
			}
			if !tt.all && !equality.Semantic.DeepEqual(kept.Spec, stored.Spec) {
				t.Errorf("got %+v", kept.Spec)
			}
			if kept.Generation != 7 || kept.OwnerReferences != nil || kept.Status.ObservedGeneration != 6 || kept.Status.DisruptionsAllowed != 1 || kept.Status.CurrentHealthy != 3 ||
				kept.Status.DesiredHealthy != 2 || kept.Status.DisruptedPods != nil {
				t.Errorf("got %+v", kept)
			}
		})
	}
}

// TestBudgetsInOrder: the budgets of a pod are in the order of their names, and one with a selector that is not
// valid selects none.
func TestBudgetsInOrder(t *testing.T) {
	var index Index
	for _, name := range []string{"c", "a", "b"} {
		index.SetBudget(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}})
	}
	index.SetBudget(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "invalid"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Wrong"}}}}})
	got := ""
	for _, budget := range index.Budgets(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}) {
		got += budget.Name
	}
	if got != "abc" {
		t.Errorf("got %s, want abc", got)
	}
}
