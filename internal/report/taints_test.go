package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestTaintFindings: rules without an owner, past their expiry, or on devices that nothing else
// speaks against; rules of drains have none of these.
func TestTaintFindings(t *testing.T) {
	old := now.Add(-48 * time.Hour)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}}}}
	owned := map[string]string{v1alpha1.OwnerAnnotation: "team gpu"}
	with := func(name, device string, at time.Time, annotations map[string]string) *resourceapi.DeviceTaintRule {
		r := rule(name, device, resourceapi.DeviceTaintEffectNoSchedule, at)
		r.Annotations = annotations
		return r
	}
	cordon := with("cordon", "gpu-0", old, nil)
	cordon.Labels = map[string]string{"dra-steward.io/drain": "gpu-0"}
	view := tracker.Merge(slice, cordon,
		with("fresh", "gpu-0", now.Add(-time.Hour), owned),
		with("forgotten", "gpu-0", old, owned),
		with("sick", "gpu-1", old, owned),
		with("nothing", "gpu-9", old, owned),
		with("bare", "gpu-1", old, map[string]string{v1alpha1.OwnerAnnotation: " "}),
		with("over", "gpu-1", old, map[string]string{v1alpha1.OwnerAnnotation: "jane", v1alpha1.ExpiresAnnotation: now.Add(-time.Minute).UTC().Format(time.RFC3339)}),
		with("unreadable", "gpu-1", old, map[string]string{v1alpha1.OwnerAnnotation: "jane", v1alpha1.ExpiresAnnotation: "soon"}),
	)
	var got []string
	for _, taint := range made(t, v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, func(in *report.Input) { in.View, in.Holders = view, &usage.Index{} }).Taints {
		if len(taint.Findings) > 0 {
			got = append(got, taint.Source.Name+": "+strings.Join(taint.Findings, "; "))
		}
	}
	want := []string{
		"bare: no owner",
		"forgotten: older than a day, and the drivers taint none of its devices",
		"over: expired at " + now.Add(-time.Minute).UTC().Format(time.RFC3339),
		"unreadable: its time of expiry cannot be read",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
