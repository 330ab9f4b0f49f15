package review_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A publisher models a public driver: the devices that its code puts into slices, the classes of
// its chart, and what its documentation has users ask for. The names and the kinds of values
// are those of the drivers in mid 2026.
type publisher struct {
	driver string
	// account is the ServiceAccount of its kubelet plugin.
	account string
	// devices are those of a node; counters are published in a slice of their own.
	devices func(g *generator, node int) (devices []resourceapi.Device, counters []resourceapi.CounterSet)
	classes []resourceapi.DeviceClass
	// selectors are expressions of users about devices of the first class.
	selectors []string
	// shared are attributes for matchAttribute.
	shared []string
	// taints are what the driver puts on a device that is ill.
	taints []resourceapi.DeviceTaint
	// parameters are configurations for requests of the first class.
	parameters []string
	// newer are configurations for a release that the included schemas do not know yet.
	newer []string
	// network is true for a driver that reports the data of network devices.
	network bool
}

// A version is an attribute of that type.
type version string

// attributes makes attributes of plain values.
func attributes(values map[string]any) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for name, value := range values {
		var a resourceapi.DeviceAttribute
		switch value := value.(type) {
		case string:
			a.StringValue = &value
		case int:
			a.IntValue = new(int64(value))
		case bool:
			a.BoolValue = &value
		case version:
			a.VersionValue = new(string(value))
		default:
			panic(fmt.Sprintf("%s: %T", name, value))
		}
		all[resourceapi.QualifiedName(name)] = a
	}
	return all
}

// capacities makes capacities of quantities.
func capacities(values map[string]string) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, value := range values {
		all[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: resource.MustParse(value)}
	}
	return all
}

func class(name, extended string, expressions ...string) (c resourceapi.DeviceClass) {
	c.Name = name
	for _, e := range expressions {
		c.Spec.Selectors = append(c.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

// A generator makes up one cluster.
type generator struct {
	*rand.Rand
	minor int
}

func pick[T any](g *generator, of []T) T { return of[g.IntN(len(of))] }

// one is true n times of 100.
func (g *generator) one(n int) bool { return g.IntN(100) < n }

func (g *generator) uuid() string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", g.Uint32(), g.IntN(1<<16), g.IntN(1<<16), g.IntN(1<<16), g.Int64N(1<<48))
}

// pci is an address and the root of device i.
func (g *generator) pci(i int) (address, root string) {
	return fmt.Sprintf("0000:%02x:00.0", 16+i), fmt.Sprintf("pci0000:%02x", 16*(1+i/4))
}

// topology adds what drivers publish about the place of a device.
func (g *generator) topology(a map[string]any, i int) map[string]any {
	address, root := g.pci(i)
	a["resource.kubernetes.io/pciBusID"], a["resource.kubernetes.io/pcieRoot"] = address, root
	if g.one(70) {
		a["resource.kubernetes.io/numaNode"] = i / 4
	}
	return a
}

func publishers() []publisher {
	return []publisher{nvidia(), computeDomains(), intelGPU(), gaudi(), qat(), amd(), tpu(), sriov(), dranet(), exampleDriver(), fabric()}
}

func nvidia() publisher {
	const d, v1beta1 = "gpu.nvidia.com", `"apiVersion":"resource.nvidia.com/v1beta1",`
	return publisher{
		driver: d, account: "system:serviceaccount:dra-driver-nvidia-gpu:kubelet-plugin", devices: nvidiaDevices,
		classes: []resourceapi.DeviceClass{
			class(d, "nvidia.com/gpu", `device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'`),
			class("mig.nvidia.com", "", `device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'`),
			class("vfio.gpu.nvidia.com", "", `device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'`),
			class("mig-1g-12gb.gpu.nvidia.com", "nvidia.com/mig-1g.12gb", `device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' && device.attributes['gpu.nvidia.com'].profile == '1g.12gb'`),
		},
		selectors: []string{
			`device.attributes["gpu.nvidia.com"].productName.lowerAscii().matches("^.*h100.*$")`,
			`device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.0.0"))`,
			`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0`,
			`"brand" in device.attributes["gpu.nvidia.com"]`,
		},
		shared: []string{"resource.kubernetes.io/pcieRoot", "gpu.nvidia.com/productName"},
		taints: []resourceapi.DeviceTaint{
			{Key: d + "/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}, {Key: d + "/xid", Value: "43", Effect: resourceapi.DeviceTaintEffectNone},
			{Key: d + "/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule}, {Key: d + "/unmonitored", Effect: resourceapi.DeviceTaintEffectNone},
		},
		parameters: []string{
			`{` + v1beta1 + `"kind":"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}}}`,
			`{` + v1beta1 + `"kind":"GpuConfig","sharing":{"strategy":"MPS","mpsConfig":{"defaultActiveThreadPercentage":50,"defaultPinnedDeviceMemoryLimit":"10Gi"}}}`,
			`{` + v1beta1 + `"kind":"GpuConfig"}`,
		},
		newer: []string{
			`{` + v1beta1 + `"kind":"GpuConfig","sharing":{"strategy":"GreenContexts"}}`,
			`{` + v1beta1 + `"kind":"GpuConfig","sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"VeryLong"}}}`,
			`{` + v1beta1 + `"kind":"GpuConfig","confidentialComputing":{"mode":"on"}}`,
			`{"apiVersion":"resource.nvidia.com/v1beta2","kind":"GpuConfig","sharing":{}}`,
		},
	}
}

// nvidiaDevices are whole GPUs, GPUs with their MIG devices on shared counters, or GPUs passed
// through; whole ones shared by memory if the driver is started so.
func nvidiaDevices(g *generator, _ int) (devices []resourceapi.Device, counters []resourceapi.CounterSet) {
	kind := pick(g, []string{"gpu", "gpu", "shared", "mig", "vfio"})
	if g.minor < 35 && kind == "mig" {
		kind = "gpu" // with 1.34 the counters are in the slice of the devices
	}
	for i := range 1 + g.IntN(8) {
		base := func(name, what string) resourceapi.Device {
			a := g.topology(map[string]any{"type": what, "productName": pick(g, []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA GB300"}), "brand": "Nvidia",
				"architecture": "Hopper", "cudaComputeCapability": version("9.0.0"), "driverVersion": version("580.65.6"), "cudaDriverVersion": version("13.0.0")}, i)
			if g.one(30) {
				a["addressingMode"] = "HMM"
			}
			return resourceapi.Device{Name: name, Attributes: attributes(a)}
		}
		d := base(fmt.Sprintf("gpu-%d", i), "gpu")
		d.Capacity = capacities(map[string]string{"memory": "81559Mi"})
		d.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: new("GPU-" + g.uuid())}
		switch kind {
		case "shared":
			shareMemory(&d)
		case "vfio":
			d = resourceapi.Device{Name: fmt.Sprintf("gpu-vfio-%d", i), Capacity: capacities(map[string]string{"addressableMemory": "128Gi"}),
				Attributes: attributes(g.topology(map[string]any{"type": "vfio", "uuid": "GPU-" + g.uuid(), "deviceID": "0x2330", "vendorID": "0x10de", "productName": "GH100", "iommuFDEnabled": g.one(50)}, i))}
		case "mig":
			set, parts := migDevices(g, i, base)
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set.Name, Counters: set.Counters}}
			devices, counters = append(devices, parts...), append(counters, set)
		}
		devices = append(devices, d)
	}
	return devices, counters
}

// shareMemory is consumable shares of memory, in steps of 1Mi.
func shareMemory(d *resourceapi.Device) {
	step, most := resource.MustParse("1Mi"), d.Capacity["memory"].Value
	d.AllowMultipleAllocations = new(true)
	d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: most, RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: &most, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &step, Max: &most, Step: &step}}}
}

// migDevices are the partitions of GPU i, and the counters that they share with the whole.
func migDevices(g *generator, i int, base func(name, what string) resourceapi.Device) (set resourceapi.CounterSet, devices []resourceapi.Device) {
	counter := func(values map[string]string, first, slices int) map[string]resourceapi.Counter {
		all := map[string]resourceapi.Counter{}
		for name, value := range values {
			all[name] = resourceapi.Counter{Value: resource.MustParse(value)}
		}
		for s := first; s < first+slices; s++ {
			all[fmt.Sprintf("memory-slice-%d", s)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		return all
	}
	set = resourceapi.CounterSet{Name: fmt.Sprintf("gpu-%d-counter-set", i), Counters: counter(map[string]string{"memory": "81559Mi", "multiprocessors": "132", "copy-engines": "8"}, 0, 8)}
	for s := range 7 {
		d := base(fmt.Sprintf("gpu-%d-mig-1g12gb-19-%d", i, s), "mig")
		d.Attributes["parentUUID"], d.Attributes["profile"] = resourceapi.DeviceAttribute{StringValue: new("GPU-" + g.uuid())}, resourceapi.DeviceAttribute{StringValue: new("1g.12gb")}
		d.Capacity = capacities(map[string]string{"memory": "11264Mi", "multiprocessors": "16", "copyEngines": "1", "decoders": "0"})
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set.Name, Counters: counter(map[string]string{"memory": "11264Mi", "multiprocessors": "16", "copy-engines": "1"}, s, 1)}}
		devices = append(devices, d)
	}
	return set, devices
}

func computeDomains() publisher {
	const d = "compute-domain.nvidia.com"
	return publisher{
		driver: d, account: "system:serviceaccount:dra-driver-nvidia-gpu:compute-domain-kubelet-plugin",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for id := range pick(g, []int{1, 1, 1, 300}) { // older releases published all 2048 channels
				devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("channel-%d", id), Attributes: attributes(map[string]any{"type": "channel", "id": id})})
			}
			return append(devices, resourceapi.Device{Name: "daemon-0", Attributes: attributes(map[string]any{"type": "daemon", "id": 0})}), nil
		},
		classes: []resourceapi.DeviceClass{
			class("compute-domain-default-channel.nvidia.com", "", `device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel' && device.attributes['compute-domain.nvidia.com'].id == 0`),
			class("compute-domain-daemon.nvidia.com", "", `device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'daemon'`),
		},
		parameters: []string{
			`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"2ed85ae9-1a62-42e6-a6ac-1a6ef5f787c1","allocationMode":"Single"}`,
			`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainDaemonConfig","domainID":"2ed85ae9-1a62-42e6-a6ac-1a6ef5f787c1"}`,
		},
		newer: []string{`{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomainChannelConfig","domainID":"a","allocationMode":"Half"}`},
	}
}

func intelGPU() publisher {
	const d = "gpu.intel.com"
	return publisher{
		driver: d, account: "system:serviceaccount:intel-gpu-resource-driver:intel-gpu-sa",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 1 + g.IntN(8) {
				address, root := g.pci(i)
				a := g.topology(map[string]any{"model": pick(g, []string{"0x0bda", "Unknown", "Flex 170"}), "family": pick(g, []string{"Max", "Arc", ""}), "driver": pick(g, []string{"xe", "i915", "vfio-pci", ""}),
					"sriov": g.one(50), "type": "gpu", "pciId": "0x0bda", "pciAddress": address, "pciRoot": strings.TrimPrefix(root, "pci0000:"), "health": "Healthy"}, i)
				devices = append(devices, resourceapi.Device{Name: strings.NewReplacer(":", "-", ".", "-").Replace(address) + "-0x0bda", Attributes: attributes(a),
					Capacity: capacities(map[string]string{"memory": pick(g, []string{"0Mi", "16384Mi", "65536Mi"}), "millicores": "1000"})})
			}
			return devices, nil
		},
		classes: []resourceapi.DeviceClass{
			class(d, "", `device.driver == "gpu.intel.com"`),
			class("gpu-vfio.intel.com", "", `device.driver == "gpu.intel.com"`, `device.attributes["gpu.intel.com"].driver == 'vfio-pci' || device.attributes["gpu.intel.com"].driver == 'xe-vfio-pci'`),
		},
		selectors: []string{`device.capacity["gpu.intel.com"].memory.compareTo(quantity("1Gi")) >= 0`, `device.attributes["gpu.intel.com"].family == "Max"`, `device.attributes["gpu.intel.com"].sriov`},
		shared:    []string{"gpu.intel.com/pciRoot", "resource.kubernetes.io/pcieRoot"},
		taints: []resourceapi.DeviceTaint{
			{Key: "HealthIssues-memorytemperature_coretemperature", Effect: resourceapi.DeviceTaintEffectNoExecute},
			{Key: "UnboundUnmanaged", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
}

func gaudi() publisher {
	const d = "gaudi.intel.com"
	return publisher{
		driver: d, account: "system:serviceaccount:intel-gaudi-resource-driver:intel-gaudi-sa",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 8 {
				address, root := g.pci(i)
				devices = append(devices, resourceapi.Device{Name: strings.NewReplacer(":", "-", ".", "-").Replace(address) + "-0x1020",
					Attributes: attributes(map[string]any{"model": "Gaudi2", "resource.kubernetes.io/pcieRoot": root, "pciRoot": root[len(root)-2:], "serial": "AM" + g.uuid()[:8], "healthy": true})})
			}
			return devices, nil
		},
		classes:   []resourceapi.DeviceClass{class(d, "", `device.driver == "gaudi.intel.com"`)},
		selectors: []string{`device.attributes["gaudi.intel.com"].model == 'Gaudi2'`, `device.attributes["gaudi.intel.com"].healthy`},
		shared:    []string{"resource.kubernetes.io/pcieRoot"},
	}
}

func qat() publisher {
	const d = "qat.intel.com"
	return publisher{
		driver: d, account: "system:serviceaccount:intel-qat-resource-driver:intel-qat-sa",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 16 * (1 + g.IntN(8)) {
				devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("qatvf-0000-%02x-%02x-%d", 0x6b, i/8, i%8), Attributes: attributes(map[string]any{"services": pick(g, []string{"sym;asym", "dc", "unset"})})})
			}
			return devices, nil
		},
		classes:   []resourceapi.DeviceClass{class(d, "", `device.driver == "qat.intel.com"`)},
		selectors: []string{`device.attributes["qat.intel.com"].services == "sym;asym"`},
	}
}
