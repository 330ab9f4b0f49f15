package validate_test

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// gatedClaim uses everything that depends on a feature gate.
func gatedClaim() *resourceapi.ResourceClaim {
	yes, distinct, share := true, resourceapi.FullyQualifiedName("example.com/numa"), "00000000-0000-4000-8000-000000000001"
	claim := &resourceapi.ResourceClaim{}
	claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: &distinct}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{
			AdminAccess: &yes, Capacity: &resourceapi.CapacityRequirements{},
			Tolerations:       []resourceapi.DeviceToleration{{}},
			DerivedAttributes: []resourceapi.DeviceDerivedAttribute{{}},
		}},
		{Name: "two", FirstAvailable: []resourceapi.DeviceSubRequest{{Tolerations: []resourceapi.DeviceToleration{{}}}}},
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{
			AdminAccess: &yes, BindingConditions: []string{"a"}, BindingFailureConditions: []string{"b"},
			SkipNodeOperations: []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll},
		}},
	}}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{ShareID: &share}}
	return claim
}

// TestClaimDrops: what a gate that is off takes away, and what stays because it is
// stored already, because the minor keeps it or because the gate is on.
func TestClaimDrops(t *testing.T) {
	off := func(gate validate.Gate) map[validate.Gate]bool { return map[validate.Gate]bool{gate: false} }
	for _, test := range []struct {
		profile validate.Profile
		drops   validate.Drops[*resourceapi.ResourceClaim]
		stored  bool
		lost    []string
	}{
		{validate.Profile{}, validate.ResourceClaimDrops, false, []string{"derivedAttributes"}},
		{validate.Profile{}, validate.ResourceClaimDrops, true, nil},
		{validate.Profile{Minor: 36}, validate.ResourceClaimDrops, true, []string{"derivedAttributes"}},
		{validate.Profile{Gates: off(validate.DRADeviceTaints)}, validate.ResourceClaimDrops, false, []string{"tolerations", "derivedAttributes"}},
		{validate.Profile{Minor: 35}, validate.ResourceClaimDrops, false, []string{"tolerations", "distinctAttribute", "derivedAttributes"}},
		{validate.Profile{Minor: 34}, validate.ResourceClaimDrops, false, []string{"capacity", "derivedAttributes"}},
		{validate.Profile{Minor: 34, Gates: off(validate.DRAPrioritizedList)}, validate.ResourceClaimDrops, false, []string{"firstAvailable", "capacity", "derivedAttributes"}},
		{validate.Profile{Minor: 35, Gates: off(validate.DRAAdminAccess)}, validate.ResourceClaimDrops, false, []string{"tolerations", "adminAccess", "distinctAttribute", "derivedAttributes"}},
		{validate.Profile{}, validate.ResourceClaimStatusDrops, false, []string{"skipNodeOperations"}},
		{validate.Profile{Minor: 36}, validate.ResourceClaimStatusDrops, true, []string{"skipNodeOperations"}},
		{validate.Profile{Minor: 35}, validate.ResourceClaimStatusDrops, false, []string{"shareID", "bindingConditions", "skipNodeOperations"}},
		{validate.Profile{Minor: 34}, validate.ResourceClaimStatusDrops, false, []string{"shareID", "allocationTimestamp", "skipNodeOperations"}},
		{validate.Profile{Minor: 36, Gates: off(validate.DRAResourceClaimDeviceStatus)}, validate.ResourceClaimStatusDrops, false, []string{"status.devices", "skipNodeOperations"}},
	} {
		old := &resourceapi.ResourceClaim{}
		if test.stored {
			old = gatedClaim()
		}
		lost := test.drops.Apply(old, gatedClaim(), true, test.profile)
		same := len(lost) == len(test.lost)
		for i := range min(len(lost), len(test.lost)) {
			same = same && strings.Contains(lost[i], test.lost[i])
		}
		if !same {
			t.Errorf("%+v, stored %t: lost\n%s\nwant %q", test.profile, test.stored, strings.Join(lost, "\n"), test.lost)
		}
	}
}

// TestDropsRemoveWhatTheyUse: nothing is left of what a drop removes.
func TestDropsRemoveWhatTheyUse(t *testing.T) {
	for _, drops := range []validate.Drops[*resourceapi.ResourceClaim]{validate.ResourceClaimDrops, validate.ResourceClaimStatusDrops} {
		for _, drop := range drops {
			claim := gatedClaim()
			used := drop.Uses(claim)
			if drop.Remove(claim); !used || drop.Uses(claim) {
				t.Errorf("%s: used %t before and %t after", fmt.Sprint(drop.Fields), used, drop.Uses(claim))
			}
		}
	}
	template := &resourceapi.ResourceClaimTemplate{}
	template.Spec.Spec = gatedClaim().Spec
	if lost := validate.ResourceClaimTemplateDrops.Apply(nil, template, false, validate.Profile{}); len(lost) != 1 || !strings.HasPrefix(lost[0], "spec.spec.devices") {
		t.Errorf("template: lost %q", lost)
	}
	name := "example.com/gpu"
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}}
	if lost := validate.DeviceClassDrops.Apply(nil, class, false, validate.Profile{Minor: 35}); len(lost) != 1 || class.Spec.ExtendedResourceName != nil {
		t.Errorf("class: lost %q", lost)
	}
}
