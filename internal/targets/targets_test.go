package targets_test

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/targets"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

const driver = "gpu.example.com"

// slice has devices of pool "a"; those whose names begin with "h" are of the model "h".
func slice(name string, generation, count int64, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.NodeName = driver, ptr.To("a")
	s.Spec.Pool = resourceapi.ResourcePool{Name: "a", Generation: generation, ResourceSliceCount: count}
	for _, device := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: device, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: ptr.To(device[:1])}}})
	}
	return s
}

// holding is an index of claims that hold devices of pool "a".
func holding(devices ...string) *usage.Index {
	index := &usage.Index{}
	for _, device := range devices {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: device}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: driver, Pool: "a", Device: device}}
		index.SetClaim(claim)
	}
	return index
}

// TestSelect: a selector finds what is published in a generation that counts, or held by a claim, and nothing else.
func TestSelect(t *testing.T) {
	for name, tt := range map[string]struct {
		slices  []*resourceapi.ResourceSlice
		held    []string
		model   string
		want    []string
		unknown []string
	}{
		"published":                        {slices: []*resourceapi.ResourceSlice{slice("a", 1, 1, "g0", "g1")}, want: []string{"g0", "g1"}},
		"held and gone":                    {slices: []*resourceapi.ResourceSlice{slice("a", 2, 1, "m0", "m1")}, held: []string{"g0"}, want: []string{"g0", "m0", "m1"}},
		"all slices gone":                  {held: []string{"g0"}, want: []string{"g0"}},
		"between two generations":          {slices: []*resourceapi.ResourceSlice{slice("old", 1, 1, "g0", "g1"), slice("new", 2, 2, "g0")}, want: []string{"g0", "g1"}},
		"after a complete generation":      {slices: []*resourceapi.ResourceSlice{slice("old", 1, 1, "g0", "g1"), slice("new", 2, 1, "g0")}, want: []string{"g0"}},
		"by model":                         {slices: []*resourceapi.ResourceSlice{slice("a", 1, 1, "g0", "h1")}, model: "h", want: []string{"h1"}},
		"by model, gone":                   {slices: []*resourceapi.ResourceSlice{slice("a", 2, 1, "h1")}, model: "h", held: []string{"h0"}, want: []string{"h1"}, unknown: []string{"h0"}},
		"by model, in an older slice":      {slices: []*resourceapi.ResourceSlice{slice("old", 1, 1, "h0", "g0"), slice("new", 2, 1, "h1")}, model: "h", held: []string{"h0", "g0"}, want: []string{"h0", "h1"}},
		"by model, between two":            {slices: []*resourceapi.ResourceSlice{slice("old", 1, 1, "h0", "h1"), slice("new", 2, 2, "g2")}, model: "h", want: []string{"h0", "h1"}},
		"of another model and published":   {slices: []*resourceapi.ResourceSlice{slice("a", 1, 1, "g0")}, model: "h", held: []string{"g0"}},
		"obsolete and held by no claim":    {slices: []*resourceapi.ResourceSlice{slice("old", 1, 1, "h0"), slice("new", 2, 1, "h1")}, model: "h", want: []string{"h1"}},
		"held of a pool without any slice": {model: "h", held: []string{"h0"}, unknown: []string{"h0"}},
	} {
		selector := &v1alpha1.DrainSelector{Driver: ptr.To(driver), Pool: ptr.To("a")}
		if tt.model != "" {
			selector.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].model == %q", driver, tt.model)}}}
		}
		found := targets.Select(new(patch.Compiler).Within(0), selector, slices.Values(tt.slices), holding(tt.held...))
		if len(found.Problems) > 0 || found.Failures.Devices > 0 {
			t.Fatalf("%s: %+v", name, found)
		}
		if got := namesOf(found.Devices); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		if got := namesOf(found.Unknown); !slices.Equal(got, tt.unknown) {
			t.Errorf("%s: unknown %v, want %v", name, got, tt.unknown)
		}
	}
}

// TestSelectFails: a device that is gone is unknown if the expression fails for it, or if the devices cost too much, and is not
// taken for one that the selector leaves out.
func TestSelectFails(t *testing.T) {
	bare := slice("old", 1, 1, "h0", "h2")
	bare.Spec.Devices[0].Attributes = nil
	selector := &v1alpha1.DrainSelector{Driver: ptr.To(driver), Pool: ptr.To("a"), Selectors: []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].model == 'h'", driver)}}}}
	all := []*resourceapi.ResourceSlice{bare, slice("new", 2, 1, "h1")}
	for limit, want := range map[uint64][]string{0: {"h0"}, 1: {"h0", "h2"}} {
		found := targets.Select(new(patch.Compiler).Within(limit), selector, slices.Values(all), holding("h0", "h2"))
		if got := namesOf(found.Unknown); !slices.Equal(got, want) {
			t.Errorf("limit %d: unknown %v, want %v; selected %v", limit, got, want, namesOf(found.Devices))
		}
	}
}

func namesOf(all []v1alpha1.DeviceName) (names []string) {
	for _, name := range all {
		names = append(names, name.Device)
	}
	return names
}
