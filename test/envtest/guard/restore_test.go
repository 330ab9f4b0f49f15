package guard_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRestoreOfRules: a taint rule that was exported a month ago comes back with its time if the site
// lists who restores it, by user or group. Others are told what to write, and may restore it without
// the time.
func TestRestoreOfRules(t *testing.T) {
	guarded(t, map[string]any{"mode": "enforce", "policies": map[string]any{"parameters": map[string]any{"DRA-RULE-005": map[string]any{"restorers": []any{"backup", "system:serviceaccounts:velero"}}}}})
	const added = "2026-01-02T03:04:05Z"
	exported := ruleOf(cluster.DeviceTaintRules(), "exported", driver+"/exported/a", "NoSchedule", "")
	if err := unstructured.SetNestedField(exported.Object, added, "spec", "taint", "timeAdded"); err != nil {
		t.Fatal(err)
	}
	as := func(user string, groups ...string) (err error) {
		t.Helper()
		config, err := cluster.User(user, append(groups, "system:masters")...)
		if err != nil {
			t.Fatal(err)
		}
		rules, _ := rulesAs(t, config)
		stored, err := rules.Create(t.Context(), exported.DeepCopy(), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(stored.Object, "spec", "taint", "timeAdded"); got != added {
			t.Errorf("%s restores the time %q, want %q", user, got, added)
		}
		return rules.Delete(context.WithoutCancel(t.Context()), "exported", metav1.DeleteOptions{})
	}
	for user, group := range map[string]string{"backup": "backups", "system:serviceaccount:velero:server": "system:serviceaccounts:velero"} {
		if err := as(user, group); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	err := as("jane")
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "DRA-RULE-005") || !strings.Contains(err.Error(), "in the parameter restorers") {
		t.Errorf("jane: %v", err)
	}
	unstructured.RemoveNestedField(exported.Object, "spec", "taint", "timeAdded")
	rules, _ := rulesAs(t, cluster.Config())
	if _, err := rules.Create(t.Context(), exported, notStored); err != nil {
		t.Errorf("without the time: %v", err)
	}
}
