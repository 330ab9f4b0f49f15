package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
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
	off := func(gate apiserver.Gate) map[apiserver.Gate]bool { return map[apiserver.Gate]bool{gate: false} }
	for _, test := range []struct {
		profile apiserver.Profile
		drops   apiserver.Drops[*resourceapi.ResourceClaim]
		stored  bool
		lost    []string
	}{
		{apiserver.Profile{}, apiserver.ResourceClaimDrops(), false, []string{"derivedAttributes"}},
		{apiserver.Profile{}, apiserver.ResourceClaimDrops(), true, nil},
		{apiserver.Profile{Minor: 36}, apiserver.ResourceClaimDrops(), true, []string{"derivedAttributes"}},
		{apiserver.Profile{Gates: off("DRADeviceTaints")}, apiserver.ResourceClaimDrops(), false, []string{"tolerations", "derivedAttributes"}},
		{apiserver.Profile{Minor: 35}, apiserver.ResourceClaimDrops(), false, []string{"tolerations", "distinctAttribute", "derivedAttributes"}},
		{apiserver.Profile{Minor: 34}, apiserver.ResourceClaimDrops(), false, []string{"capacity", "derivedAttributes"}},
		{apiserver.Profile{Minor: 34, Gates: off("DRAPrioritizedList")}, apiserver.ResourceClaimDrops(), false, []string{"firstAvailable", "capacity", "derivedAttributes"}},
		{apiserver.Profile{Minor: 35, Gates: off("DRAAdminAccess")}, apiserver.ResourceClaimDrops(), false, []string{"tolerations", "adminAccess", "distinctAttribute", "derivedAttributes"}},
		{apiserver.Profile{}, apiserver.ResourceClaimStatusDrops(), false, []string{"skipNodeOperations"}},
		{apiserver.Profile{Minor: 36}, apiserver.ResourceClaimStatusDrops(), true, []string{"skipNodeOperations"}},
		{apiserver.Profile{Minor: 35}, apiserver.ResourceClaimStatusDrops(), false, []string{"shareID", "bindingConditions", "skipNodeOperations"}},
		{apiserver.Profile{Minor: 34}, apiserver.ResourceClaimStatusDrops(), false, []string{"shareID", "allocationTimestamp", "skipNodeOperations"}},
		{apiserver.Profile{Minor: 36, Gates: off("DRAResourceClaimDeviceStatus")}, apiserver.ResourceClaimStatusDrops(), false, []string{"status.devices", "skipNodeOperations"}},
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
	for _, drops := range []apiserver.Drops[*resourceapi.ResourceClaim]{apiserver.ResourceClaimDrops(), apiserver.ResourceClaimStatusDrops()} {
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
	if lost := apiserver.ResourceClaimTemplateDrops().Apply(nil, template, false, apiserver.Profile{}); len(lost) != 1 || !strings.HasPrefix(lost[0], "spec.spec.devices") {
		t.Errorf("template: lost %q", lost)
	}
	name := "example.com/gpu"
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}}
	if lost := apiserver.DeviceClassDrops().Apply(nil, class, false, apiserver.Profile{Minor: 35}); len(lost) != 1 || class.Spec.ExtendedResourceName != nil {
		t.Errorf("class: lost %q", lost)
	}
}
