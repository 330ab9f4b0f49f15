package nodeagent

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

func TestCheckAttributes(t *testing.T) {
	for names, want := range map[string]string{
		"uuid,resource.kubernetes.io/pciBusID,productName": "",
		"":                       "",
		"9":                      `"9": must be the name of an attribute`,
		"Upper.example.com/uuid": `"Upper.example.com/uuid": must be the name of an attribute`,
		"a.b/c,a-b/c":            `"a.b/c" and "a-b/c": both have the label attribute_a_b_c`,
		"a,b,c,d,e,f,g,h,i":      "must have at most 8 names, not 9",
		"uuid,uuid":              `"uuid" and "uuid": both have the label attribute_uuid`,
	} {
		var list []string
		if names != "" {
			list = strings.Split(names, ",")
		}
		if err := CheckAttributes(list); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", names, err, want)
		}
	}
}

// TestAttributesOf: a name without a domain is one of the driver, in the slice with or without
// the driver.
func TestAttributesOf(t *testing.T) {
	device := &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"uuid":                           {StringValue: ptr.To("GPU-1")},
		"gpu.example.com/model":          {StringValue: ptr.To("A")},
		"resource.kubernetes.io/pciRoot": {StringValue: ptr.To("pci0")},
		"version":                        {VersionValue: ptr.To("1.2.3")},
		"index":                          {IntValue: ptr.To[int64](3)},
		"mig":                            {BoolValue: ptr.To(false)},
		"numa":                           {IntValues: []int64{0, 1}},
		"links":                          {StringValues: []string{"a", "b"}},
	}}
	for name, want := range map[string]string{
		"uuid": "GPU-1", "gpu.example.com/uuid": "GPU-1", "model": "A", "gpu.example.com/model": "A",
		"resource.kubernetes.io/pciRoot": "pci0", "version": "1.2.3", "index": "3", "mig": "false", "numa": "0,1", "links": "a,b",
	} {
		if got := attributesOf(device, gpuDriver, []string{name, "absent", "pciRoot"}); !maps.Equal(got, map[string]string{name: want}) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	if got := attributesOf(device, gpuDriver, []string{"absent"}); got != nil {
		t.Error(got)
	}
}

// TestHolderLabels: labels that a site chooses, and devices of device plugins with their
// resource.
func TestHolderLabels(t *testing.T) {
	if CheckHolderLabels(HolderLabels()) != nil || CheckHolderLabels([]string{"pod"}) == nil || CheckHolderLabels([]string{"resource", "resource"}) == nil {
		t.Error("a label is refused, or not")
	}
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry, MetricsOptions{HolderLabels: []string{"container_state", "resource"}, Attributes: []string{"uuid", "resource.kubernetes.io/pciBusID"}})
	if err != nil {
		t.Fatal(err)
	}
	h := holding("a", "x", "gpu-0", func(h *podresources.Holding) { h.State = "running" })
	plugin := podresources.Holding{Namespace: "default", Pod: "a", Container: "main", Resource: "vendor.example/gpu", Device: "GPU-9"}
	m.report.Store(&Observation{Holdings: []podresources.Holding{h, plugin},
		Attributes: map[Device]map[string]string{deviceOf(h): {"uuid": "GPU-1"}}})
	want := `
# HELP dra_steward_node_device_holder_info Devices that containers of this node hold, always 1. The container is empty for a device of the pod as a whole, the pod for one that is gone.
# TYPE dra_steward_node_device_holder_info gauge
dra_steward_node_device_holder_info{attribute_resource_kubernetes_io_pciBusID="",attribute_uuid="",claim="",container="main",container_state="",device="GPU-9",driver="",exactness="",namespace="default",pod="a",pool="",request="",resource="vendor.example/gpu",uid=""} 1
dra_steward_node_device_holder_info{attribute_resource_kubernetes_io_pciBusID="",attribute_uuid="GPU-1",claim="x",container="main",container_state="running",device="gpu-0",driver="gpu.example.com",exactness="",namespace="default",pod="a",pool="n1",request="",resource="",uid="a"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_node_device_holder_info"); err != nil {
		t.Error(err)
	}
}

// TestHoldersAreBounded: a device plugin can publish thousands of devices. Without the label
// of their resource they are no series.
func TestHoldersAreBounded(t *testing.T) {
	for _, labels := range [][]string{nil, {"resource"}} {
		registry := prometheus.NewPedanticRegistry()
		m, err := NewMetrics(registry, MetricsOptions{HolderLabels: labels})
		if err != nil {
			t.Fatal(err)
		}
		o := &Observation{}
		for i := range maxHolders + 10 {
			o.Holdings = append(o.Holdings, podresources.Holding{Pod: "a", Resource: "vendor.example/memory", Device: fmt.Sprint(i)})
		}
		m.report.Store(o)
		n, err := testutil.GatherAndCount(registry, "dra_steward_node_device_holder_info")
		want, omitted := 0, "0"
		if labels != nil {
			want, omitted = maxHolders, "10"
		}
		if err != nil || n != want {
			t.Errorf("%v: %d series, %v, want %d", labels, n, err, want)
		}
		text := "# HELP dra_steward_node_device_holders_omitted Holders of devices without a series, because this node has more than 4096.\n" +
			"# TYPE dra_steward_node_device_holders_omitted gauge\ndra_steward_node_device_holders_omitted " + omitted + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "dra_steward_node_device_holders_omitted"); err != nil {
			t.Error(err)
		}
	}
}
