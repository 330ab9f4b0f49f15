package review_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func amd() publisher {
	const d = "gpu.amd.com"
	return publisher{
		driver: d, account: "system:serviceaccount:kube-amd-gpu:amd-gpu-dra",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			partitioned := g.one(40)
			for i := range 1 + g.IntN(8) {
				address, root := g.pci(i)
				a := map[string]any{"type": "amdgpu", "pciAddr": address, "cardIndex": i, "renderIndex": 128 + i, "deviceID": g.uuid()[:18], "family": "AI", "productName": "AMD_Instinct_MI300X_OAM",
					"driverVersion": version("6.12.12"), "driverSrcVersion": "67D2A1E8D3B3B6E9F3C8D65", "partitionProfile": "spx_nps1", "resource.kubernetes.io/pcieRoot": root}
				size := map[string]string{"memory": "196592Mi", "computeUnits": "304", "simdUnits": "1216"}
				if !partitioned {
					devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d-%d", i, 128+i), Attributes: attributes(a), Capacity: capacities(size)})
					continue
				}
				a["parentPciAddr"], a["parentDeviceID"], a["type"], a["partitionProfile"] = a["pciAddr"], a["deviceID"], "amdgpu-partition", "cpx_nps4"
				delete(a, "pciAddr")
				delete(a, "deviceID")
				for p := range 8 {
					a["cardIndex"], a["renderIndex"] = 8*i+p, 128+8*i+p
					devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d-%d", 8*i+p, 128+8*i+p), Attributes: attributes(a),
						Capacity: capacities(map[string]string{"memory": "24574Mi", "computeUnits": "38", "simdUnits": "152"})})
				}
			}
			return devices, nil
		},
		classes: []resourceapi.DeviceClass{class(d, "", `device.driver == "gpu.amd.com"`)},
		selectors: []string{`device.attributes["gpu.amd.com"].type == "amdgpu-partition"`, `device.attributes["gpu.amd.com"].driverVersion.compareTo(semver("6.10.0")) >= 0`,
			`device.capacity["gpu.amd.com"].memory.isGreaterThan(quantity("16Gi"))`},
		shared:     []string{"gpu.amd.com/family", "resource.kubernetes.io/pcieRoot"},
		parameters: []string{`{"apiVersion":"gpu.resource.amd.com/v1alpha1","kind":"GpuConfig"}`},
	}
}

func tpu() publisher {
	const d = "tpu.google.com"
	return publisher{
		driver: d, account: "system:serviceaccount:dra-driver-google-tpu:kubelet-plugin",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			chips := pick(g, []int{1, 4, 8})
			for i := range chips {
				a := map[string]any{"index": i, "uuid": "tpu-" + g.uuid(), "tpuGen": pick(g, []string{"v5e", "v6e", "tpu7x"}), "brand": "Google", "accelerator": "tpu-v5-lite-podslice", "chipCount": chips}
				if g.one(60) {
					a["topology"] = pick(g, []string{"2x4", "2x2x1", ""})
				}
				devices = append(devices, resourceapi.Device{Name: pick(g, []string{"accel", "vfio-"}) + fmt.Sprint(i), Attributes: attributes(a)})
			}
			return devices, nil
		},
		classes:   []resourceapi.DeviceClass{class(d, "", `device.driver == "tpu.google.com"`)},
		selectors: []string{`device.attributes["tpu.google.com"].tpuGen in ["v5e", "v6e"]`, `device.attributes["tpu.google.com"].chipCount >= 4`},
		shared:    []string{"tpu.google.com/accelerator"},
	}
}

func sriov() publisher {
	const d = "sriovnetwork.k8snetworkplumbingwg.io"
	config := func(more string) string {
		return `{"apiVersion":"sriovnetwork.k8snetworkplumbingwg.io/v1alpha1","kind":"VfConfig"` + more + `}`
	}
	return publisher{
		driver: d, account: "system:serviceaccount:dra-driver-sriov:dra-driver-sriov", network: true,
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 8 * (1 + g.IntN(4)) {
				address := fmt.Sprintf("0000:%02x:%02x.%d", 8, i/8, i%8)
				a := map[string]any{d + "/vendor": "15b3", d + "/deviceID": "101e", d + "/pfDeviceID": "101d", d + "/pciAddress": address, "k8s.cni.cncf.io/deviceID": address, d + "/PFName": "ens1f0np0",
					d + "/EswitchMode": pick(g, []string{"legacy", "switchdev"}), d + "/vfID": i, "resource.kubernetes.io/pcieRoot": "pci0000:00", d + "/pfPciAddress": "0000:08:00.0",
					"resource.kubernetes.io/pciBusID": address, d + "/linkType": pick(g, []string{"ethernet", "infiniband", "unknown"}), d + "/rdmaCapable": g.one(50), "dra.net/numaNode": i / 16}
				if g.one(50) {
					a[d+"/resourceName"], a["k8s.cni.cncf.io/resourceName"] = "port1-vfs", "port1-vfs"
				}
				devices = append(devices, resourceapi.Device{Name: strings.NewReplacer(":", "-", ".", "-").Replace(address), Attributes: attributes(a)})
			}
			return devices, nil
		},
		classes: []resourceapi.DeviceClass{class(d, "example.com/sriov", `device.driver == 'sriovnetwork.k8snetworkplumbingwg.io'`)},
		selectors: []string{`device.attributes["sriovnetwork.k8snetworkplumbingwg.io"].vfID < 4`, `device.attributes["k8s.cni.cncf.io"].deviceID != ""`,
			`device.attributes["sriovnetwork.k8snetworkplumbingwg.io"].?resourceName.orValue("") == "port1-vfs"`},
		shared:     []string{"resource.kubernetes.io/pcieRoot", d + "/pfPciAddress"},
		parameters: []string{config(""), config(`,"ifName":"net1","netAttachDefName":"vf-test","driver":"vfio-pci","addVhostMount":true`)},
	}
}

func dranet() publisher {
	const d = "dra.net"
	return publisher{
		driver: d, account: "system:serviceaccount:kube-system:dranet", network: true,
		devices: func(g *generator, _ int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 1 + g.IntN(10) {
				address, root := g.pci(i)
				a := map[string]any{d + "/ifName": fmt.Sprintf("gpu%drdma0", i), d + "/mac": fmt.Sprintf("00:11:22:33:44:%02x", i), d + "/mtu": pick(g, []int{1460, 1500, 9000}), d + "/encapsulation": "ether", d + "/alias": "",
					d + "/state": pick(g, []string{"up", "down"}), d + "/type": "device", d + "/ebpf": g.one(20), d + "/sriov": false, d + "/isSriovVf": false, d + "/virtual": false, d + "/rdma": g.one(60),
					d + "/pciAddress": address, d + "/pciVendor": "Mellanox Technologies", d + "/pciDevice": "ConnectX Family mlx5Gen Virtual Function", d + "/pciSubsystem": "0240", d + "/numaNode": i / 4,
					"resource.kubernetes.io/pcieRoot": root}
				if g.one(50) {
					a[d+"/ipv4"], a["gce.dra.net/networkName"], a["gce.dra.net/networkProjectNumber"], a["gce.dra.net/machineType"] = "10.0.0.7/32", "dra-1-vpc", 628944397724, "a3-highgpu-8g"
				}
				if g.one(30) {
					a["azure.dra.net/vmSize"], a["azure.dra.net/placementGroupId"], a[d+"/rdmaDevice"] = "Standard_ND128isr_GB300_v6", g.uuid(), fmt.Sprintf("mlx5_%d", i)
				}
				devices = append(devices, resourceapi.Device{Name: "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(address), Attributes: attributes(a)})
			}
			return devices, nil
		},
		classes: []resourceapi.DeviceClass{class("dranet.net", "", `device.driver == "dra.net"`), class("rdma", "", `device.driver == "dra.net"`, `device.attributes["dra.net"].rdma == true`)},
		selectors: []string{`device.attributes["dra.net"]["rdma"] == true && device.attributes["dra.net"]["numaNode"] == 0`,
			`has(device.attributes["dra.net"].ifName) && device.attributes["dra.net"].ifName == "gpu0rdma0"`, `!device.attributes["dra.net"].virtual && device.attributes["dra.net"].?ebpf.orValue(false) == false`},
		shared: []string{"resource.kubernetes.io/pcieRoot", "dra.net/numaNode"},
		parameters: []string{
			`{"interface":{"name":"eth1","addresses":["169.254.169.14/24"],"mtu":4321,"hardwareAddr":"00:11:22:33:44:55"},"ethtool":{"features":{"tcp-segmentation-offload":false}}}`,
			`{"interface":{"dhcp":true}}`, `{"routes":[{"destination":"10.0.0.0/8","gateway":"10.0.0.1"}]}`, `{}`,
		},
		newer: []string{`{"interface":{"type":"MACVLAN"}}`, `{"interface":{"arpIgnore":4}}`, `{"qos":{"priority":3}}`},
	}
}

// exampleDriver shares its GPUs by counters and binding conditions.
func exampleDriver() publisher {
	const d = "gpu.example.com"
	return publisher{
		driver: d, account: "system:serviceaccount:dra-example-driver:dra-example-driver-service-account",
		devices: func(g *generator, _ int) (devices []resourceapi.Device, counters []resourceapi.CounterSet) {
			partitions, binds := g.minor >= 35 && g.one(40), g.one(30)
			for i := range 1 + g.IntN(9) {
				whole := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Capacity: capacities(map[string]string{"memory": "80Gi"}),
					Attributes: attributes(map[string]any{"index": i, "uuid": "gpu-" + g.uuid(), "model": "LATEST-GPU-MODEL", "driverVersion": version("1.0.0")})}
				if binds {
					whole.BindsToNode, whole.BindingConditions, whole.BindingFailureConditions = new(true), []string{"gpu.example.com/ready"}, []string{"gpu.example.com/failed"}
				}
				if partitions {
					set := resourceapi.CounterSet{Name: fmt.Sprintf("gpu-%d-counters", i), Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("80Gi")}}}
					counters = append(counters, set)
					whole.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set.Name, Counters: set.Counters}}
					for p := range 4 {
						part := whole
						part.Name = fmt.Sprintf("gpu-%d-partition-%d", i, p)
						part.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set.Name, Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("20Gi")}}}}
						devices = append(devices, part)
					}
				}
				devices = append(devices, whole)
			}
			return devices, counters
		},
		classes:    []resourceapi.DeviceClass{class(d, "example.com/gpu", `device.driver == 'gpu.example.com'`)},
		selectors:  []string{`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`, `device.attributes["gpu.example.com"].index in [0, 1, 2]`},
		shared:     []string{"gpu.example.com/model"},
		parameters: []string{`{"apiVersion":"gpu.resource.example.com/v1alpha1","kind":"GpuConfig","sharing":{"strategy":"SpacePartitioning","spacePartitioningConfig":{"partitionCount":10}}}`},
		newer:      []string{`{"apiVersion":"gpu.resource.example.com/v1alpha1","kind":"GpuConfig","sharing":{"strategy":"Exclusive"}}`},
		taints:     []resourceapi.DeviceTaint{{Key: "gpu.example.com/unhealthy", Effect: resourceapi.DeviceTaintEffectNoExecute}},
	}
}

// fabric publishes devices of a fabric that several nodes reach, each with its own selector.
func fabric() publisher {
	const d = "cxl.fabric.example.com"
	return publisher{
		driver: d, account: "system:serviceaccount:composable:dds",
		devices: func(g *generator, node int) (devices []resourceapi.Device, _ []resourceapi.CounterSet) {
			for i := range 1 + g.IntN(16) {
				device := resourceapi.Device{Name: fmt.Sprintf("module-%d", i), Attributes: attributes(map[string]any{"type": "memory", "productName": "CXL-512"}), Capacity: capacities(map[string]string{"size": "512Gi"})}
				switch i % 3 {
				case 0:
					device.AllNodes = new(true)
				case 1:
					device.NodeName = new(nodeName(node))
				default:
					device.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: "topology.kubernetes.io/rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}}
				}
				devices = append(devices, device)
			}
			return devices, nil
		},
		classes:   []resourceapi.DeviceClass{class(d, "", `device.driver == "cxl.fabric.example.com"`)},
		selectors: []string{`device.capacity["cxl.fabric.example.com"].size.compareTo(quantity("256Gi")) > 0`},
		shared:    []string{d + "/productName"},
		taints:    []resourceapi.DeviceTaint{{Key: "fabric.example.com/port-down", Value: "port-3", Effect: resourceapi.DeviceTaintEffectNoExecute}},
	}
}

func nodeName(i int) string { return fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/200, i%200) }
