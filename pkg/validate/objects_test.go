package validate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestPaths: an item is named by its name; by its index where it has none; marked
// where the name could be taken for an index.
func TestPaths(t *testing.T) {
	taints := make([]resourceapi.DeviceTaint, 2)
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{
		{Name: "gpu-0", Taints: taints}, {Name: "", Taints: taints}, {Name: "7", Taints: taints}, {Name: "7g", Taints: taints},
	}}}
	tight := Conditions{Limits: Limits{TaintsPerDevice: 1, TolerationsPerRequest: 1}}
	got := only("device-taints-max", ResourceSlice().Validate(slice, tight))
	want := []string{"spec.devices[gpu-0].taints", "spec.devices[1].taints", "spec.devices[name=7].taints", "spec.devices[7g].taints"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slice: -want +got:\n%s", diff)
	}

	tolerations := make([]resourceapi.DeviceToleration, 2)
	devices := resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{Tolerations: tolerations}},
		{Name: "0", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "large", Tolerations: tolerations}, {Tolerations: tolerations}}},
	}}
	below := []string{"requests[gpu].exactly.tolerations", "requests[name=0].firstAvailable[large].tolerations", "requests[name=0].firstAvailable[1].tolerations"}
	claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: devices}}
	template := &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec}}
	for prefix, got := range map[string][]string{
		"spec.devices.":      only("request-tolerations-max", ResourceClaim().Validate(claim, tight)),
		"spec.spec.devices.": only("request-tolerations-max", ResourceClaimTemplate().Validate(template, tight)),
	} {
		for i, want := range below {
			if len(got) != len(below) || got[i] != prefix+want {
				t.Fatalf("got %q, want %s followed by each of %q", got, prefix, below)
			}
		}
	}
}

// only returns the fields of the errors of a rule.
func only(rule string, errs field.ErrorList) (fields []string) {
	for _, err := range errs {
		if err.Origin == rule {
			fields = append(fields, err.Field)
		}
	}
	return fields
}

// tight are limits that random objects exceed.
var tight = Conditions{Limits: Limits{
	DevicesPerSlice: 3, DevicesPerAdvancedSlice: 2, AttributesAndCapacitiesPerDevice: 2, AttributeValuesPerDevice: 3,
	TaintsPerDevice: 1, TolerationsPerRequest: 1, RequestsPerClaim: 2, AlternativesPerRequest: 1, DevicesPerClaim: 2,
}}

func randomSlice(r *rand.Rand) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	for i := range r.IntN(5) {
		device := resourceapi.Device{
			// No API server stores two devices of one name.
			Name:       pick(r, fmt.Sprint("gpu-", i), fmt.Sprint("GPU", i), "", fmt.Sprint(7+i)),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		}
		for j := range r.IntN(4) {
			name := resourceapi.QualifiedName(pick(r, fmt.Sprint("a", j), "no name", "example.com/a", "/b"))
			device.Attributes[name] = resourceapi.DeviceAttribute{StringValues: make([]string, r.IntN(3))}
		}
		for range r.IntN(4) {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{
				Key: pick(r, "example.com/a", "", "not a key"), Value: pick(r, "", "x", "not a value"),
				Effect: pick[resourceapi.DeviceTaintEffect](r, "NoSchedule", "", "Evict"),
			})
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

// improve takes away some devices, taints and attributes.
func improve(r *rand.Rand, slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	better := slice.DeepCopy()
	better.Spec.Devices = slices.DeleteFunc(better.Spec.Devices, func(resourceapi.Device) bool { return r.IntN(4) == 0 })
	for i := range better.Spec.Devices {
		device := &better.Spec.Devices[i]
		device.Taints = slices.DeleteFunc(device.Taints, func(resourceapi.DeviceTaint) bool { return r.IntN(4) == 0 })
		for name := range slice.Spec.Devices[0].Attributes {
			if r.IntN(4) == 0 {
				delete(device.Attributes, name)
			}
		}
	}
	return better
}

// TestSlicesMayImprove: with limits far below what is stored, a driver can publish the
// same slice and a smaller one, and no slice with a taint more on a bad device.
func TestSlicesMayImprove(t *testing.T) {
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 0))
		stored := randomSlice(r)
		for name, written := range map[string]*resourceapi.ResourceSlice{"same": stored, "improved": improve(r, stored)} {
			if errs, _ := ResourceSlice().ValidateUpdate(stored, written, tight); len(errs) > 0 {
				t.Fatalf("seed %d, %s: %v", seed, name, errs)
			}
		}
		worse := stored.DeepCopy()
		for i := range worse.Spec.Devices {
			device := &worse.Spec.Devices[i]
			if len(device.Taints) == 0 {
				continue
			}
			device.Taints = append(device.Taints, device.Taints[0], device.Taints[0], device.Taints[0])
			if errs, _ := ResourceSlice().ValidateUpdate(stored, worse, tight); len(errs) == 0 {
				t.Fatalf("seed %d: three taints more on device %d pass", seed, i)
			}
			break
		}
	}
}

// FuzzRules makes objects of any bytes, for any API server. Rules do not panic, return the
// same twice, leave the object as it is, and accept it when it is written again unchanged.
func FuzzRules(f *testing.F) {
	for minor := range uint8(apiserver.NewestMinor - apiserver.OldestMinor + 1) {
		f.Add([]byte("seed"), minor, uint32(0))
		f.Add([]byte{0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, minor, ^uint32(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, minor uint8, gates uint32) {
		profile := anyProfile(minor, gates)
		fuzz(t, data, profile, ResourceSlice(), apiserver.ResourceSliceDrops())
		fuzz(t, data, profile, ResourceClaim(), apiserver.ResourceClaimDrops())
		fuzz(t, data, profile, ResourceClaimStatus(), apiserver.ResourceClaimStatusDrops())
		fuzz(t, data, profile, ResourceClaimTemplate(), apiserver.ResourceClaimTemplateDrops())
		fuzz(t, data, profile, DeviceClass(), apiserver.DeviceClassDrops())
		fuzz(t, data, profile, DeviceTaintRule(), apiserver.DeviceTaintRuleDrops())
		fuzz(t, data, profile, DeviceTaintRuleStatus(), nil)
	})
}

// anyProfile makes a profile of two numbers: a bit for every gate.
func anyProfile(minor uint8, gates uint32) apiserver.Profile {
	supported := apiserver.NewestMinor - apiserver.OldestMinor + 1
	profile := apiserver.Profile{Minor: apiserver.OldestMinor + int(minor)%supported, Gates: map[apiserver.Gate]bool{}}
	for i, gate := range apiserver.Gates() {
		profile.Gates[gate] = gates>>i&1 == 1
	}
	return profile
}

func fuzz[T any, P interface {
	*T
	DeepCopyObject() runtime.Object
}](t *testing.T, data []byte, profile apiserver.Profile, rules Table[P], drops apiserver.Drops[P]) {
	t.Helper()
	object, other := P(new(T)), P(new(T))
	filler(data).Fill(object)
	before := object.DeepCopyObject()
	restricted := tight
	restricted.Profile = profile
	for _, c := range []Conditions{{Profile: profile}, restricted} {
		errs := rules.Validate(object, c)
		if diff := cmp.Diff(lines(errs), lines(rules.Validate(object, c))); diff != "" {
			t.Errorf("%T: the second time:\n%s", object, diff)
		}
		if !equality.Semantic.DeepEqual(before, runtime.Object(object.DeepCopyObject())) {
			t.Errorf("%T: was changed", object)
		}
		grown, tolerated := rules.ValidateUpdate(object, object, c)
		if len(grown) > 0 || len(tolerated) != len(errs) {
			t.Errorf("%T: unchanged, and denied: %v", object, grown)
		}
		for _, err := range errs {
			if err.Origin == "" || err.Field == "" || err.Error() == "" {
				t.Errorf("%T: incomplete: %#v", object, err)
			}
		}
		rules.Upstream().ValidateUpdate(object, object, c.APIServer())
		rules.Upstream().ValidateUpdate(other, object, c.APIServer())
		rules.Upstream().ValidateUpdate(object, other, c.APIServer())
	}
	drops.Apply(other, object, true, profile)
	if lost := drops.Apply(other, object, true, profile); len(lost) > 0 {
		t.Errorf("%T: dropped twice: %q", object, lost)
	}
}

func lines(errs field.ErrorList) (lines []string) {
	for _, err := range errs {
		lines = append(lines, err.Origin+": "+err.Error())
	}
	return lines
}

// filler fills objects from bytes, with values that can exist.
func filler(data []byte) *randfill.Filler {
	return randfill.NewFromGoFuzz(data).NilChance(.2).NumElements(0, 4).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) { q.Set(c.Int63n(1 << 40)) },
		func(*metav1.ObjectMeta, randfill.Continue) {},
		func(*runtime.RawExtension, randfill.Continue) {},
	)
}

// BenchmarkFullSlice checks the largest slice that can exist: 128 devices with 32
// attributes each.
func BenchmarkFullSlice(b *testing.B) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: new("worker-1"),
		Pool: resourceapi.ResourcePool{Name: "worker-1", Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range resourceapi.ResourceSliceMaxDevices {
		device := resourceapi.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		for j := range resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			device.Attributes[resourceapi.QualifiedName(fmt.Sprint("attribute", j))] = resourceapi.DeviceAttribute{StringValue: new("some-value")}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	for name, rules := range map[string]Table[*resourceapi.ResourceSlice]{
		"all": ResourceSlice(), "in-cluster": ResourceSlice().InCluster(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if errs := rules.Validate(slice, Conditions{}); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
