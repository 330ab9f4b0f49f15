package report_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// said is a node whose devices each have a pod that reports a health; empty is none.
func said(in *report.Input, taints map[string][]resourceapi.DeviceTaint, rules []any, health ...corev1.ResourceHealthStatus) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	in.Holders, in.Pods = &usage.Index{}, nil
	for i, h := range health {
		device, message := fmt.Sprintf("gpu-%d", i), "ECC\nerrors"
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device, Taints: taints[device]})
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: device}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: driver, Pool: "node-1", Device: device}}}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod-" + device, UID: types.UID(device)}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "pod-" + device, UID: types.UID(device)},
			Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}}}
		if h != "" {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:c/gpu",
				Resources: []corev1.ResourceHealth{{ResourceID: corev1.ResourceID(driver + "/node-1/" + device), Health: h, Message: &message}}}}}}
		}
		in.Holders.SetClaim(claim)
		in.Holders.SetPod(pod)
		in.Pods = append(in.Pods, pod)
	}
	in.View = tracker.Merge(append(rules, slice)...)
}

// TestUnhealthy: a device that a pod reports as unhealthy is a note, unless a taint keeps new
// claims from it.
func TestUnhealthy(t *testing.T) {
	const healthy, unhealthy, unknown = corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown
	none := resourceapi.DeviceTaint{Key: "gpu.example.com/note", Effect: resourceapi.DeviceTaintEffectNone}
	stay := resourceapi.DeviceTaint{Key: "gpu.example.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	made := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, func(in *report.Input) {
		said(in, map[string][]resourceapi.DeviceTaint{"gpu-1": {none}, "gpu-2": {stay}}, []any{rule("cordon", "gpu-3", resourceapi.DeviceTaintEffectNoSchedule, now)},
			unhealthy, unhealthy, unhealthy, unhealthy, healthy, unknown, "")
	})
	note := func(i int) string {
		return fmt.Sprintf("device gpu.example.com/node-1/gpu-%[1]d is unhealthy, says the status of pod ml/pod-gpu-%[1]d (ECC errors), and no taint keeps new claims from it: dra-steward taint gpu.example.com/node-1/gpu-%[1]d example.com/unhealthy:NoSchedule --reason \"reported by a pod\"", i)
	}
	if want := []string{note(0), note(1)}; !slices.Equal(made.Notes, want) {
		t.Errorf("got  %q\nwant %q", made.Notes, want)
	}
	var health []string
	for _, d := range made.Devices {
		health = append(health, string(d.Health))
	}
	if want := "Unhealthy Unhealthy Unhealthy Unhealthy Healthy Unknown "; strings.Join(health, " ") != want {
		t.Errorf("%q, want %q", health, want)
	}
	var text bytes.Buffer
	if err := made.Write("wide", &text); err != nil || !strings.Contains(text.String(), "Healthy\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestManyUnhealthy: the notes about a fleet that is unhealthy are bounded, and do not push others out.
func TestManyUnhealthy(t *testing.T) {
	made := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, func(in *report.Input) {
		said(in, nil, nil, slices.Repeat([]corev1.ResourceHealthStatus{corev1.ResourceHealthStatusUnhealthy}, 50)...)
		status := &in.Pods[0].Status.ContainerStatuses[0].AllocatedResourcesStatus[0]
		status.Resources = []corev1.ResourceHealth{{ResourceID: "another", Health: corev1.ResourceHealthStatusUnhealthy}, {ResourceID: "more", Health: corev1.ResourceHealthStatusHealthy}}
	})
	if n := len(made.Notes); n != 22 || made.Notes[20] != "and 29 more like these" || !strings.HasPrefix(made.Notes[21], "a device is unhealthy, says the status of pod ml/pod-gpu-0, which does not say which one: another of claim:c/gpu") {
		t.Errorf("%d notes: %q", n, made.Notes)
	}
}

// TestHealed: old taints of drivers and of rules whose devices pods report as healthy have a note;
// one sign against that is enough to have none.
func TestHealed(t *testing.T) {
	const healthy, unhealthy, unknown = corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown
	old, fresh := metav1.NewTime(now.Add(-48*time.Hour)), metav1.NewTime(now.Add(-time.Hour))
	xid := func(added *metav1.Time) []resourceapi.DeviceTaint {
		return []resourceapi.DeviceTaint{{Key: "gpu.example.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: added}}
	}
	owned := func(r *resourceapi.DeviceTaintRule) any {
		r.Annotations = map[string]string{v1alpha1.OwnerAnnotation: "jane"}
		return r
	}
	for name, tt := range map[string]struct {
		health corev1.ResourceHealthStatus
		driver []resourceapi.DeviceTaint
		rule   time.Time
		want   string
	}{
		"a rule":                        {healthy, nil, old.Time, "older than a day, and the drivers taint none of its devices; pods report 1 of 1 as Healthy"},
		"a rule, unknown":               {unknown, nil, old.Time, "older than a day, and the drivers taint none of its devices"},
		"a rule, no health":             {"", nil, old.Time, "older than a day, and the drivers taint none of its devices"},
		"a rule, unhealthy":             {unhealthy, nil, old.Time, ""},
		"a new rule":                    {healthy, nil, fresh.Time, ""},
		"a driver":                      {healthy, xid(&old), time.Time{}, "older than a day, and pods report as Healthy: gpu.example.com/node-1/gpu-0"},
		"a driver, and a rule":          {healthy, xid(&old), old.Time, "older than a day, and pods report as Healthy: gpu.example.com/node-1/gpu-0"},
		"a driver, lately":              {healthy, xid(&fresh), time.Time{}, ""},
		"a driver that names no time":   {healthy, xid(nil), time.Time{}, ""},
		"a driver, unhealthy":           {unhealthy, xid(&old), time.Time{}, ""},
		"a driver, not known by health": {unknown, xid(&old), time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			made := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, func(in *report.Input) {
				var rules []any
				if !tt.rule.IsZero() {
					rules = append(rules, owned(rule("suspect", "gpu-0", resourceapi.DeviceTaintEffectNoSchedule, tt.rule)))
				}
				said(in, map[string][]resourceapi.DeviceTaint{"gpu-0": tt.driver}, rules, tt.health)
			})
			var got []string
			for _, taint := range made.Taints {
				got = append(got, taint.Findings...)
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
