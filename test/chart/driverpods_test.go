package chart

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

var guardingDrivers = values{"driverPods": values{"enabled": true, "deadline": "1h", "pods": []any{
	values{"namespace": "gpu-operator", "labels": values{"app.kubernetes.io/name": "gpu-driver"}, "names": "gpu-driver-*", "drivers": []any{"gpu.example.com"}},
	values{"namespace": "kube-system", "labels": values{"k8s-app": "nic-driver"}, "drivers": []any{"nic.example.com"}},
}}}

const (
	driverDeletions = "deletions.driverpods.dra-steward.io"
	driverEvictions = "evictions.driverpods.dra-steward.io"
)

// TestDriverPodsContract: no deletion of a driver's pod is sent by default. With the value,
// those in the namespaces of drivers are, and a webhook that does not answer stops none.
func TestDriverPodsContract(t *testing.T) {
	for _, h := range render(t, with(nil), Options{}).hooks() {
		if strings.Contains(h.Name, "driverpods") {
			t.Errorf("%s is there by default", h.Name)
		}
	}
	want := map[string]struct {
		resource   string
		operation  admissionv1.OperationType
		conditions []string
	}{
		driverDeletions: {"pods", admissionv1.Delete, []string{"is-of-a-driver", "not-a-controller", "not-the-node-controller", "not-its-kubelet", "runs"}},
		driverEvictions: {"pods/eviction", admissionv1.Create, []string{"is-named-as-of-a-driver", "not-a-controller", "not-the-node-controller"}},
	}
	for _, h := range render(t, with(guardingDrivers), Options{}).hooks() {
		w, ours := want[h.Name]
		if !ours {
			continue
		}
		delete(want, h.Name)
		rule, selector := h.Rules[0], h.NamespaceSelector.MatchExpressions
		if *h.FailurePolicy != admissionv1.Ignore || *h.TimeoutSeconds != 2 || *h.SideEffects != admissionv1.SideEffectClassNone {
			t.Errorf("%s: %s after %d s, want Ignore after 2 s", h.Name, *h.FailurePolicy, *h.TimeoutSeconds)
		}
		if len(h.Rules) != 1 || !slices.Equal(rule.Resources, []string{w.resource}) || !slices.Equal(rule.Operations, []admissionv1.OperationType{w.operation}) {
			t.Errorf("%s: rules are %v", h.Name, h.Rules)
		}
		if len(selector) != 1 || selector[0].Operator != "In" || !slices.Equal(selector[0].Values, []string{"gpu-operator", "kube-system"}) {
			t.Errorf("%s: selects namespaces by %v", h.Name, selector)
		}
		if got := conditionNames(h); !slices.Equal(got, w.conditions) {
			t.Errorf("%s: matchConditions %v, want %v", h.Name, got, w.conditions)
		}
	}
	if len(want) != 0 {
		t.Errorf("not in the chart: %v", want)
	}
}

// TestDriverPodConditions: which deletions and evictions the API server sends.
func TestDriverPodConditions(t *testing.T) {
	const pod = `{metadata: {name: a, labels: {app.kubernetes.io/name: gpu-driver}}, spec: {nodeName: n1}, status: {phase: Running}}`
	for name, tt := range map[string]struct {
		namespace, by string
		grace         *int64
		pod           string
		sent          bool
	}{
		"by the DaemonSet":   {by: "system:serviceaccount:kube-system:daemon-set-controller", pod: pod, sent: true},
		"by the collector":   {by: "system:serviceaccount:kube-system:generic-garbage-collector", pod: pod, sent: true},
		"by a user":          {by: "jane", grace: ptr.To[int64](0), pod: pod, sent: true},
		"by another node":    {by: "system:node:n2", grace: ptr.To[int64](0), pod: pod, sent: true},
		"by its kubelet":     {by: "system:node:n1", grace: ptr.To[int64](0), pod: pod},
		"in another":         {by: "jane", namespace: "ml", pod: pod},
		"of another driver":  {by: "jane", namespace: "kube-system", pod: pod},
		"in kube-system":     {by: "jane", namespace: "kube-system", pod: strings.Replace(pod, "app.kubernetes.io/name: gpu", "k8s-app: nic", 1), sent: true},
		"with other labels":  {by: "jane", pod: strings.Replace(pod, "gpu-driver", "operator", 1)},
		"without labels":     {by: "jane", pod: `{metadata: {name: a}, spec: {nodeName: n1}}`},
		"that already ends":  {by: "jane", pod: strings.Replace(pod, "name: a", `name: a, deletionTimestamp: "2026-01-02T03:04:05Z"`, 1)},
		"that has ended":     {by: "jane", pod: strings.Replace(pod, "Running", "Succeeded", 1)},
		"that runs nowhere":  {by: "jane", pod: strings.Replace(pod, "nodeName: n1", "", 1)},
		"by node-controller": {by: caller.NodeController(), pod: pod},
	} {
		if tt.namespace == "" {
			tt.namespace = "gpu-operator"
		}
		if sent := sendsPodWith(t, guardingDrivers, tt.namespace, "a", driverDeletions, tt.by, tt.grace, tt.pod); sent != tt.sent {
			t.Errorf("%s: sent is %v", name, sent)
		}
	}
	for _, user := range caller.PodRemovers() {
		if sendsPodWith(t, guardingDrivers, "gpu-operator", "a", driverDeletions, user, nil, pod) {
			t.Errorf("%s is sent, whom the rule exempts", user)
		}
	}
	for name, sent := range map[string]bool{"gpu-driver-x7k2p": true, "gpu-driver": false, "gpu-operator-0": false, "not-gpu-driver-a": false} {
		if got := sendsPodWith(t, guardingDrivers, "gpu-operator", name, driverEvictions, "jane", nil, "{metadata: {name: "+name+"}}"); got != sent {
			t.Errorf("eviction of %s: sent is %v", name, got)
		}
	}
	if !sendsPodWith(t, guardingDrivers, "kube-system", "any", driverEvictions, "jane", nil, "{metadata: {name: any}}") {
		t.Error("without a pattern, an eviction in the namespace is not sent")
	}
	if sendsPodWith(t, guardingDrivers, "gpu-operator", "gpu-driver-a", driverEvictions, caller.NodeController(), nil, "{metadata: {name: gpu-driver-a}}") {
		t.Error("an eviction by the node controller is sent")
	}
}
