package release_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNodeAgentNeedsItsNamespace: where Pod Security would refuse the pods of the node
// agent, helm install does, with the label to set, and installs nothing; with the label it
// installs.
func TestNodeAgentNeedsItsNamespace(t *testing.T) {
	const enforce = "pod-security.kubernetes.io/enforce"
	h := newHelm(t, "strict-nodes")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace, Labels: map[string]string{enforce: "restricted"}}}
	if err := h.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	agent := with(values{"node": values{"enabled": true}, "uninstall": values{"enabled": false}, "crds": values{"install": false}})
	for _, level := range []string{"restricted", "baseline"} {
		label(t, h, namespace, enforce, level)
		_, err := h.install(current(t), agent)
		if err == nil || !strings.Contains(err.Error(), "kubectl label --overwrite namespace strict-nodes pod-security.kubernetes.io/enforce=privileged") {
			t.Errorf("%s: %v", level, err)
		}
		var all appsv1.DaemonSetList
		if err := h.client.List(t.Context(), &all, client.InNamespace(h.namespace)); err != nil || len(all.Items) > 0 {
			t.Errorf("%s: installed nevertheless: %v %v", level, len(all.Items), err)
		}
	}
	// The same values are right where the label is.
	label(t, h, namespace, enforce, "privileged")
	h.must(h.install(current(t), agent))
	h.must(h.uninstall())
}

func label(t *testing.T, h helm, namespace *corev1.Namespace, key, value string) {
	t.Helper()
	before := namespace.DeepCopy()
	namespace.Labels[key] = value
	if err := h.client.Patch(t.Context(), namespace, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
