package manager

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestDeviceMetrics: each device is free or held, by driver; held ones have the class of
// their request. Admin access does not hold a device, a device of two generations counts once.
func TestDeviceMetrics(t *testing.T) {
	id := func(driver, device string) usage.DeviceID {
		return usage.DeviceID{Driver: driver, Pool: "node-1", Device: device}
	}
	result := func(request, driver, device string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: "node-1", Device: device}
	}
	admin := result("gpu", "gpu.example.com", "gpu-2")
	admin.AdminAccess = ptr.To(true)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}},
		{Name: "nic", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "fast", DeviceClassName: "nic-fast"}, {Name: "any", DeviceClassName: "nic"}}},
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{
		result("gpu", "gpu.example.com", "gpu-0"), result("nic/any", "nic.example.com", "nic-0"), admin, result("gpu", "gpu.example.com", "gone"),
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, c := range []*resourceapi.ResourceClaim{claim, {ObjectMeta: metav1.ObjectMeta{Name: "pending"}}} {
		if err := store.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	all := []usage.DeviceID{id("gpu.example.com", "gpu-0"), id("gpu.example.com", "gpu-1"), id("gpu.example.com", "gpu-2"), id("gpu.example.com", "gpu-1"), id("nic.example.com", "nic-0")}
	if err := NewDeviceMetrics(registry, store, func() iter.Seq[usage.DeviceID] { return slices.Values(all) }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.Metric {
			line := family.GetName()
			for _, label := range m.Label {
				line += " " + label.GetValue()
			}
			got = append(got, fmt.Sprint(line, " ", m.Gauge.GetValue()))
		}
	}
	want := []string{
		"dra_steward_devices gpu.example.com free 2", "dra_steward_devices gpu.example.com held 1",
		"dra_steward_devices nic.example.com free 0", "dra_steward_devices nic.example.com held 1",
		"dra_steward_devices_held gpu gpu.example.com 1", "dra_steward_devices_held nic nic.example.com 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestSharedDevices: a device that claims of several classes share has the same class at each scrape.
func TestSharedDevices(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for _, class := range []string{"gold", "silver", "bronze"} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: class}}
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0", ShareID: ptr.To(types.UID(class))}}
		if err := store.Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	all := []usage.DeviceID{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}
	if err := NewDeviceMetrics(registry, store, func() iter.Seq[usage.DeviceID] { return slices.Values(all) }); err != nil {
		t.Fatal(err)
	}
	const want = `
# HELP dra_steward_devices_held Devices that are allocated to claims, by driver and by the DeviceClass of the request, the first by name for a device that claims share; admin access is not counted. Pairs beyond the 100 with the most devices have the labels "".
# TYPE dra_steward_devices_held gauge
dra_steward_devices_held{class="bronze",driver="gpu.example.com"} 1
`
	for range 50 { // a store has no order
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_devices_held"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeviceSeriesAreBounded: drivers beyond the largest are added up.
func TestDeviceSeriesAreBounded(t *testing.T) {
	var all []usage.DeviceID
	for i := range maxSeries + 50 {
		for j := range 1 + i%2 {
			all = append(all, usage.DeviceID{Driver: fmt.Sprint("driver-", i), Pool: "p", Device: fmt.Sprint(j)})
		}
	}
	registry := prometheus.NewPedanticRegistry()
	if err := NewDeviceMetrics(registry, cache.NewStore(cache.MetaNamespaceKeyFunc), func() iter.Seq[usage.DeviceID] { return slices.Values(all) }); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(registry, "dra_steward_devices"); err != nil || n != 2*(maxSeries+1) {
		t.Errorf("%d series, %v", n, err)
	}
}
