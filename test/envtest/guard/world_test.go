package guard_test

import (
	"context"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWorld warns about what only a look at other objects shows, with no other right
// than the chart gives.
func TestWorld(t *testing.T) {
	_, c, seen := guarded(t, nil)
	claims, slices := c.ResourceV1().ResourceClaims(namespace), c.ResourceV1().ResourceSlices()
	unknown := claim("typing-mistake")
	unknown.Spec.Devices.Requests[0].Exactly.DeviceClassName = "gpu.exmaple.com"
	if _, err := claims.Create(t.Context(), unknown, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if got := seen.take(); !strings.Contains(got, "spec.devices.requests[gpu].exactly.deviceClassName") || !strings.Contains(got, "class-exists") {
		t.Errorf("warnings %q, want one about the class", got)
	}

	member := func(name string, device string) *resourceapi.ResourceSlice {
		s := slice(name, resourceapi.Device{Name: device})
		s.Spec.Pool = resourceapi.ResourcePool{Name: "shared", Generation: 1, ResourceSliceCount: 2}
		return s
	}
	if _, err := slices.Create(t.Context(), member("first", "gpu-a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer slices.Delete(context.WithoutCancel(t.Context()), "first", metav1.DeleteOptions{})
	eventually(t, "the informer has seen the first slice", func(ctx context.Context) (bool, error) {
		_, err := slices.Create(ctx, member("second", "gpu-a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return strings.Contains(seen.take(), "pool-device-unique"), err
	})
	if _, err := slices.Create(t.Context(), member("second", "gpu-b"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if got := seen.take(); got != "" {
		t.Errorf("warnings %q about a slice that agrees with its pool, want none", got)
	}
}
