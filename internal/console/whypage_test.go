package console_test

import (
	"context"
	"errors"
	"html"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const quotaRefuses = `PodResourceClaim gpu: failed to create ResourceClaim: resourceclaims.resource.k8s.io "made-gpu" is forbidden: exceeded quota: small, ` +
	`requested: count/resourceclaims.resource.k8s.io=1, used: count/resourceclaims.resource.k8s.io=3, limited: count/resourceclaims.resource.k8s.io=3`

// waitingFor is a cluster with one device, which a rule taints, a pod "named" with a claim for it, and a pod
// "made" whose claim is not made.
func waitingFor(rule *resourceapi.DeviceTaintRule) fleet.Input {
	node, name, template := "node-1", "train", "big"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Devices: []resourceapi.Device{{Name: "gpu-0"}},
		Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	pod := func(name string, reference corev1.PodResourceClaim) *corev1.Pod {
		reference.Name = "gpu"
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{reference}}}
	}
	return fleet.Input{View: tracker.Merge(slice, rule, class), Claims: []*resourceapi.ResourceClaim{claim}, Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: node}}},
		Pods: []*corev1.Pod{pod("named", corev1.PodResourceClaim{ResourceClaimName: &name}), pod("made", corev1.PodResourceClaim{ResourceClaimTemplateName: &template})}}
}

// tainting is a rule for all devices of a driver.
func tainting(key string) *resourceapi.DeviceTaintRule {
	driver := "gpu.example.com"
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: taints.Name(taints.Target{Driver: driver}, key)},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver}, Taint: resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
}

// TestWhyCommands: the page of a pod and of a claim name the command that ends the taint: that of dra-steward for
// a rule of a drain or of "dra-steward taint".
func TestWhyCommands(t *testing.T) {
	drained, tainted := tainting("dra-steward.io/drain"), tainting("example.com/broken")
	drained.Labels, drained.Annotations = map[string]string{drain.DrainLabel: "firmware"}, map[string]string{drain.UIDAnnotation: "u"}
	tainted.Labels = map[string]string{taints.ManagedBy: taints.ManagedByTaint}
	if !clusterwrite.Ours(tainted) {
		t.Fatal("the rule is not ours")
	}
	for want, rule := range map[string]*resourceapi.DeviceTaintRule{
		"dra-steward drain --cancel firmware":                    drained,
		"dra-steward untaint gpu.example.com example.com/broken": tainted,
		"kubectl delete devicetaintrule":                         tainting("example.com/other"),
	} {
		get := serveWhy(t, rule, nil, nil)
		for _, target := range []string{"/pod?namespace=team-a&name=named", "/claim?namespace=team-a&name=train"} {
			if body := get(target); !strings.Contains(body, `<code class="command">`+want) {
				t.Errorf("%s does not name the command %q:\n%s", target, want, body)
			}
		}
	}
}

// TestWhyNotMade: the page of a pod says why its claim is not made, from the events of the pod. It
// says so where they cannot be read.
func TestWhyNotMade(t *testing.T) {
	quota := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team-a", Name: "made"}, Reason: "FailedResourceClaimCreation", Message: quotaRefuses}
	target := "/pod?" + url.Values{"namespace": {"team-a"}, "name": {"made"}}.Encode()
	body := serveWhy(t, tainting("example.com/other"), []*corev1.Event{quota}, nil)(target)
	if !strings.Contains(body, "ResourceQuota small refuses the claim") || !strings.Contains(body, "kubectl patch resourcequota small") || strings.Contains(body, "check that kube-controller-manager runs") {
		t.Errorf("the page does not name the quota:\n%s", body)
	}
	if body := serveWhy(t, tainting("example.com/other"), nil, errors.New("lost"))(target); !strings.Contains(body, "has not created the claim") || !strings.Contains(body, "The events cannot be read: lost") {
		t.Errorf("without events, the page does not say so:\n%s", body)
	}
}

// serveWhy serves waitingFor with events of its pods.
func serveWhy(t *testing.T, rule *resourceapi.DeviceTaintRule, events []*corev1.Event, err error) func(string) string {
	t.Helper()
	f, built := fleet.Build(t.Context(), waitingFor(rule), nil)
	if built != nil {
		t.Fatal(built)
	}
	s, made := console.New(console.Options{Now: clock, Name: "dra-steward", Events: func(_ context.Context, _, kind, _ string) ([]*corev1.Event, error) {
		if kind != "Pod" {
			return nil, err
		}
		return events, err
	}})
	if made != nil {
		t.Fatal(made)
	}
	s.Show(f)
	g := console.NewGate(port)
	handler := s.Handler(g)
	user := enter(t, g, handler)
	return func(target string) string {
		w := answer(handler, "GET", target, user)
		if w.Code != 200 {
			t.Fatalf("%s: %d %.300s", target, w.Code, w.Body)
		}
		return html.UnescapeString(w.Body.String())
	}
}
