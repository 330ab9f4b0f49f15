package guard_test

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSeventeenTolerations is the limit that the API documents and no API server
// enforces.
func TestSeventeenTolerations(t *testing.T) {
	_, c, _ := guarded(t, nil)
	var tolerations []resourceapi.DeviceToleration
	for i := range 17 {
		tolerations = append(tolerations, resourceapi.DeviceToleration{Key: fmt.Sprint("example.com/fault-", i), Operator: resourceapi.DeviceTolerationOpExists})
	}
	claims := c.ResourceV1().ResourceClaims(namespace)
	_, err := claims.Create(t.Context(), claim("tolerant", tolerations...), metav1.CreateOptions{})
	wantDenied(t, err, "spec.devices.requests[gpu].exactly.tolerations", "17", "at most 16", "request-tolerations-max")
	created, err := claims.Create(t.Context(), claim("tolerant", tolerations[:16]...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("16 tolerations: %v", err)
	}
	if got := created.Spec.Devices.Requests[0].Exactly.Tolerations; len(got) != 16 {
		t.Errorf("stored %d tolerations, want 16", len(got))
	}
	if err := claims.Delete(t.Context(), "tolerant", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// TestSiteLimit takes a limit below what is stored: the driver may go on updating its
// slice, and is told.
func TestSiteLimit(t *testing.T) {
	g, c, _ := guarded(t, map[string]any{"limits": map[string]any{"devicesPerSlice": 10}})
	slices := c.ResourceV1().ResourceSlices()
	_, err := slices.Create(t.Context(), slice("site", gpus(11)...), metav1.CreateOptions{})
	wantDenied(t, err, "spec.devices", "11", "at most 10", "slice-devices-max")
	stored, err := slices.Create(t.Context(), slice("site", gpus(10)...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("10 devices: %v", err)
	}
	defer slices.Delete(t.Context(), "site", metav1.DeleteOptions{})
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}

	_, c, seen := guarded(t, map[string]any{"limits": map[string]any{"devicesPerSlice": 8}})
	slices = c.ResourceV1().ResourceSlices()
	same, err := slices.Update(t.Context(), stored, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("unchanged update: %v", err)
	}
	if got := seen.take(); !strings.Contains(got, "spec.devices") || !strings.Contains(got, "at most 8") {
		t.Errorf("unchanged update: warnings %q, want one about spec.devices and the limit 8", got)
	}
	fewer := same.DeepCopy()
	fewer.Spec.Devices = fewer.Spec.Devices[:9]
	if same, err = slices.Update(t.Context(), fewer, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("an improvement from 10 to 9: %v", err)
	}
	more := same.DeepCopy()
	more.Spec.Devices = gpus(10)
	_, err = slices.Update(t.Context(), more, metav1.UpdateOptions{})
	wantDenied(t, err, "spec.devices", "10", "at most 8")
}
