package patchstatus_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/patchstatus"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A patch of a class that does not exist.
func ExampleDecide() {
	class := "gpu"
	p := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "usable-memory"}}
	p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{DeviceClassName: &class}
	for _, report := range tracker.Merge(p).PatchReports() {
		status := patchstatus.Decide(report, true, metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		for _, c := range status.Conditions {
			fmt.Println(c.Type, c.Status, c.Reason)
		}
	}
	// Output:
	// Accepted False ClassNotFound
	// Applied False NoDeviceMatches
	// Conflicting False NoConflict
	// ClassNotFound True ClassNotFound
	// CELError False NoError
}
