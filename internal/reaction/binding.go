package reaction

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
)

// A BindingFailure is a binding condition of a device that has failed (KEP-5007).
type BindingFailure struct {
	Device v1alpha1.DeviceName
	// Type is that of the condition, Text the cause, At when the failure was seen.
	Type, Text string
	At         time.Time
}

// BindingFailures are the devices of a claim with a failed binding condition. kube-scheduler takes the
// allocation back as soon as it sees one, and the conditions with it.
func BindingFailures(claim *resourceapi.ResourceClaim, now time.Time) (failures []BindingFailure) {
	for result, status := range withConditions(claim) {
		for _, c := range status.Conditions {
			if c.Status == metav1.ConditionTrue && slices.Contains(result.BindingFailureConditions, c.Type) {
				text := fmt.Sprintf("binding condition %s of claim %s/%s failed", c.Type, claim.Namespace, claim.Name)
				if c.Message != "" {
					text += ": " + OneLine(c.Message, 256)
				}
				failures = append(failures, BindingFailure{deviceOf(result), c.Type, text, now})
				break
			}
		}
	}
	return failures
}

// Bound reports the devices of a claim all of whose binding conditions are met, and that a pod has.
func Bound(claim *resourceapi.ResourceClaim) (devices []v1alpha1.DeviceName) {
	if len(claim.Status.ReservedFor) == 0 {
		return nil
	}
	for result, status := range withConditions(claim) {
		met := true
		for _, want := range result.BindingConditions {
			met = met && slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == want && c.Status == metav1.ConditionTrue })
		}
		for _, c := range status.Conditions {
			met = met && !(c.Status == metav1.ConditionTrue && slices.Contains(result.BindingFailureConditions, c.Type))
		}
		if met {
			devices = append(devices, deviceOf(result))
		}
	}
	return devices
}

// withConditions yields the allocated devices of a claim that have binding conditions, with what drivers
// report about them.
func withConditions(claim *resourceapi.ResourceClaim) func(yield func(*resourceapi.DeviceRequestAllocationResult, *resourceapi.AllocatedDeviceStatus) bool) {
	return func(yield func(*resourceapi.DeviceRequestAllocationResult, *resourceapi.AllocatedDeviceStatus) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			if len(result.BindingConditions)+len(result.BindingFailureConditions) == 0 {
				continue
			}
			for j := range claim.Status.Devices {
				status := &claim.Status.Devices[j]
				if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device && !yield(result, status) {
					return
				}
			}
		}
	}
}

func deviceOf(r *resourceapi.DeviceRequestAllocationResult) v1alpha1.DeviceName {
	return v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
}

// Bindings are the outcomes of binding conditions.
type Bindings struct {
	// Failed are the failures of the last moments, Bound devices whose conditions are met.
	Failed []BindingFailure
	Bound  map[v1alpha1.DeviceName]bool
}

// BindingsOf are the outcomes of binding conditions that claims have now.
func BindingsOf(claims []*resourceapi.ResourceClaim, now time.Time) *Bindings {
	b := &Bindings{Bound: map[v1alpha1.DeviceName]bool{}}
	for _, claim := range claims {
		for _, name := range Bound(claim) {
			b.Bound[name] = true
		}
		b.Failed = append(b.Failed, BindingFailures(claim, now)...)
	}
	return b
}

// failedBinding are the devices whose binding conditions failed, and since then were not met.
func failedBinding(want *v1alpha1.CauseBindingConditions, from *Bindings) map[v1alpha1.DeviceName]string {
	sick := map[v1alpha1.DeviceName]string{}
	for _, f := range from.Failed {
		if !from.Bound[f.Device] && (len(want.Types) == 0 || slices.Contains(want.Types, f.Type)) {
			sick[f.Device] = f.Text
		}
	}
	return sick
}

// OneLine makes one line of a text that others write.
func OneLine(text string, most int) string {
	return condition.Bounded(strings.Join(strings.Fields(text), " "), most)
}
