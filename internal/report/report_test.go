package report_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const driver = "gpu.example.com"

// world is a node with two devices: one is held by a pod and has a taint that evicts, on
// the other no user is.
func world() (in report.Input, objects []any) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}}}
	evicting := rule("broken", "gpu-0", resourceapi.DeviceTaintEffectNoExecute, now.Add(-time.Hour))
	dormant := rule("firmware", "gpu-1", resourceapi.DeviceTaintEffectNoSchedule, now.Add(-time.Hour))
	nothing := rule("gone", "gpu-9", resourceapi.DeviceTaintEffectNoExecute, now)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer", UID: "c", Finalizers: []string{resourceapi.Finalizer}},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Tolerations: []resourceapi.DeviceToleration{{Key: "example.com/other", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}}}}}}},
		Status: resourceapi.ResourceClaimStatus{ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "trainer-0", UID: "p"}},
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: driver, Pool: "node-1", Device: "gpu-0"}}}}}}
	name := "trainer"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer-0", UID: "p"},
		Spec: corev1.PodSpec{NodeName: "node-1", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}}
	holders := &usage.Index{}
	holders.SetClaim(claim)
	holders.SetPod(pod)
	return report.Input{View: tracker.Merge(slice, evicting, dormant, nothing), Holders: holders, Pods: []*corev1.Pod{pod}, Now: now},
		[]any{slice, evicting, dormant, nothing, claim}
}

func rule(name, device string, effect resourceapi.DeviceTaintEffect, added time.Time) *resourceapi.DeviceTaintRule {
	ours, pool := driver, "node-1"
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(added)},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &ours, Pool: &pool, Device: &device},
			Taint: resourceapi.DeviceTaint{Key: "example.com/" + name, Effect: effect, TimeAdded: &metav1.Time{Time: added}}}}
}

func made(t *testing.T, configuration v1alpha1.StewardConfiguration, change func(*report.Input)) report.Report {
	t.Helper()
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	in, objects := world()
	in.Modes = mode.All()[slices.Index(mode.All(), configuration.Mode):]
	if change != nil {
		change(&in)
	}
	in.Ladder, err = audit.NewLadder(audit.Options{Configuration: configuration, Policies: set, Now: now}, in.Modes, nil)
	if err != nil {
		t.Fatal(err)
	}
	maker := report.NewMaker(&in)
	for _, object := range objects {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := maker.Add(audit.Object{Kind: resourceapi.SchemeGroupVersion.WithKind(kindOf(object)), JSON: data}); err != nil {
			t.Fatal(err)
		}
	}
	return maker.Report()
}

func kindOf(object any) string {
	switch object.(type) {
	case *resourceapi.ResourceSlice:
		return "ResourceSlice"
	case *resourceapi.DeviceTaintRule:
		return "DeviceTaintRule"
	}
	return "ResourceClaim"
}

func codes(g report.Group) (all []string) {
	for _, code := range g.Codes {
		all = append(all, code.Code)
	}
	slices.Sort(all)
	return all
}

// TestSteps: a policy that warns by itself (the toleration without an end) is refused on the last
// step only, and what was seen is weighed in the same way.
func TestSteps(t *testing.T) {
	r := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve}, func(in *report.Input) {
		in.Seen = report.Seen{Replicas: 2, Findings: map[string]int{"DRA-TOL-004": 3, "DRA-TOL-001": 2, "claim-devices-max": 1}, Defaults: map[string]int{"claim-finalizer": 7}}
	})
	for i, want := range []struct {
		refused, refusedSeen, warnedSeen, defaultedSeen int
	}{{0, 0, 0, 0}, {0, 0, 6, 7}, {0, 3, 3, 7}, {1, 6, 0, 7}} {
		s := r.Steps[i]
		if refused := slices.Contains(codes(s.Refused), "DRA-TOL-004") && slices.Contains(s.Refused.Codes[slices.IndexFunc(s.Refused.Codes,
			func(c report.Code) bool { return c.Code == "DRA-TOL-004" })].Objects, "ResourceClaim ml/trainer"); refused != (want.refused == 1) {
			t.Errorf("%s: DRA-TOL-004 refuses the claim: %v", s.Mode, refused)
		}
		if s.Refused.Seen != want.refusedSeen || s.Warned.Seen != want.warnedSeen || s.Defaulted.Seen != want.defaultedSeen {
			t.Errorf("%s: seen %d refused, %d warned, %d defaulted, want %+v", s.Mode, s.Refused.Seen, s.Warned.Seen, s.Defaulted.Seen, want)
		}
	}
	if !r.Changes() {
		t.Error("enforce refuses what observe does not")
	}
}

// TestOverrides: what is set for one policy counts more than the step.
func TestOverrides(t *testing.T) {
	r := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeDefault, Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-004": "warn", "DRA-RULE-003": "off"}}}, nil)
	if got := codes(r.Steps[1].Refused); slices.Contains(got, "DRA-TOL-004") || slices.Contains(got, "DRA-RULE-003") {
		t.Errorf("enforce refuses %v", got)
	}
}

// TestEvictions: who is evicted on the step enforce depends on who else evicts, on the mode
// that the values set, and on the time from which taints count.
func TestEvictions(t *testing.T) {
	before, after := now.Add(-2*time.Hour), now.Add(-time.Minute)
	for name, tt := range map[string]struct {
		evictions               report.Evictions
		evicted, spared, others int
	}{
		"kube-controller-manager evicts": {report.Evictions{Minor: 37}, 0, 0, 1},
		"no other evicts for rules":      {report.Evictions{Minor: 36}, 0, 1, 0},
		"older taints count":             {report.Evictions{Minor: 36, Since: &before}, 1, 0, 0},
		"and always":                     {report.Evictions{Minor: 36, Since: &time.Time{}}, 1, 0, 0},
		"but not that old":               {report.Evictions{Minor: 36, Since: &after}, 0, 1, 0},
		"observed on all steps":          {report.Evictions{Minor: 36, Since: &before, Mode: evictor.ModeObserve}, 0, 0, 1},
		"only for extended resources":    {report.Evictions{Minor: 36, Since: &before, Mode: evictor.ModeSupplement}, 0, 0, 1},
		"all":                            {report.Evictions{Minor: 37, Since: &before, Mode: evictor.ModeFull}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeDefault}, func(in *report.Input) { in.Evictions = tt.evictions })
			s := r.Steps[1]
			if len(s.Evicted) != tt.evicted || len(s.Spared) != tt.spared || len(s.Left) != tt.others {
				t.Errorf("evicts %v, spares %v, leaves %v", s.Evicted, s.Spared, s.Left)
			}
		})
	}
}

// TestHoldersAndTaints: who holds what, and which taints have no effect.
func TestHoldersAndTaints(t *testing.T) {
	r := made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, nil)
	if want := []report.Holder{{Namespace: "ml", Driver: driver, Devices: 1, Claims: 1, Pods: 1}}; !slices.Equal(r.Holders, want) {
		t.Errorf("holders %+v", r.Holders)
	}
	var got []string
	for _, taint := range r.Taints {
		text := taint.Source.String() + " " + taint.Taint
		if taint.Dormant {
			text += " dormant"
		}
		got = append(got, text)
	}
	if want := []string{"rule/broken example.com/broken:NoExecute", "rule/firmware example.com/firmware:NoSchedule dormant", "rule/gone example.com/gone:NoExecute dormant"}; !slices.Equal(got, want) {
		t.Errorf("taints %q", got)
	}
	if r.Changes() {
		t.Error("there is no step after enforce")
	}
	for _, output := range report.Texts() {
		var text bytes.Buffer
		if err := r.Write(output, &text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "rule/firmware") && output != "json" || !strings.Contains(text.String(), "ml") {
			t.Errorf("%s:\n%s", output, text.String())
		}
	}
	if err := r.Write("html", &bytes.Buffer{}); err == nil {
		t.Error("html is no output")
	}
}

// TestFaults: the known faults of the cluster's version, a rule that the scheduler of this
// version takes for one about all devices, and a device that two claims hold.
func TestFaults(t *testing.T) {
	plain := v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeWarn}
	const vendor = "this is the version of a vendor"
	for server, want := range map[string][]string{
		"":               {},
		"v1.37.1":        {"the API server is v1.37.1;", "kubernetes#141471"},
		"v1.36.0":        {"kubernetes#139651", "kubernetes#138882", "DeviceTaintRule everywhere has no deviceSelector"},
		"v1.36.5-gke.12": {"kubernetes#141620", vendor, "DeviceTaintRule everywhere has no deviceSelector"},
	} {
		r := made(t, plain, func(in *report.Input) {
			everywhere := rule("everywhere", "", resourceapi.DeviceTaintEffectNoSchedule, now)
			everywhere.Spec.DeviceSelector = nil
			in.View, in.Server = tracker.Merge(everywhere), server
		})
		var out bytes.Buffer
		if err := r.Write("text", &out); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, part := range append([]string{"known faults", vendor, "has no deviceSelector"}, want...) {
			wanted := slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, part) }) || part == "known faults" && server != ""
			if strings.Contains(text, part) != wanted {
				t.Errorf("%s: %q: %v\n%s", server, part, !wanted, text)
			}
		}
	}
	var second resourceapi.ResourceClaim
	twice := func(change func()) []string {
		return made(t, plain, func(in *report.Input) {
			in.Holders.Claims(usage.DeviceID{Driver: driver, Pool: "node-1", Device: "gpu-0"})[0].DeepCopyInto(&second)
			second.Name = "other"
			change()
			in.Holders.SetClaim(&second)
		}).Notes
	}
	if got := twice(func() {}); len(got) != 1 || got[0] != "device gpu.example.com/node-1/gpu-0 is allocated to ml/other and ml/trainer: only one of them can use it; delete the pods of the others" {
		t.Errorf("%q", got)
	}
	yes, share := true, types.UID("s")
	for name, change := range map[string]func(){
		"admin": func() { second.Status.Allocation.Devices.Results[0].AdminAccess = &yes },
		"share": func() { second.Status.Allocation.Devices.Results[0].ShareID = &share },
	} {
		if got := twice(change); len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}
