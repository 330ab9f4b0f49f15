package causes_test

import (
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/internal/foresight/why"
)

// shared are the cases about parts of devices.
func shared() []waiting {
	const (
		part    = `{name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 40Gi}}}`
		sets    = `, sharedCounters: [{name: gpu-0, counters: {memory: {value: 40Gi}}}]`
		counted = `consumesCounters: [{counterSet: gpu-0, counters: {memory: {value: `
	)
	published := func(name string, slices int, content string) string {
		return fmt.Sprintf("\n---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: $-%s}, "+
			"spec: {driver: $.example.com, nodeName: node-0, pool: {name: $-node-0, generation: 1, resourceSliceCount: %d}, %s}}", name, slices, content)
	}
	holding := func(exactly string) func(*world) {
		return func(w *world) {
			all(claim("has", exactly), pod("holds", named+"has", ""))(w)
			w.runs("holds")
		}
	}
	return []waiting{
		{"shares", why.SharesTaken, "request gpu asks for 20Gi memory; gpu-0 on node-0 has 10Gi of 40Gi memory left",
			func(w *world) {
				all(slice("node-0", part))(w)
				holding(", capacity: {requests: {memory: 30Gi}}")(w)
				all(claim("wants", ", capacity: {requests: {memory: 20Gi}}"), pod("waits", named+"wants", ""))(w)
			}, nil},
		{"used-up", why.SharesTaken, "gpu-0 on node-0 has 0 of 40Gi memory left; the rest is allocated to claim used-up/has, used by pod holds",
			func(w *world) {
				all(slice("node-0", part))(w)
				holding(", capacity: {requests: {memory: 40Gi}}")(w)
				all(claim("wants", ", capacity: {requests: {memory: 20Gi}}"), pod("waits", named+"wants", ""))(w)
			}, nil},
		{"counters", why.CountersTaken, "small on node-0 needs 20Gi memory of counter set gpu-0, of which 10Gi are left; they are allocated to claim counters/has, used by pod holds",
			func(w *world) {
				devices := `devices: [{name: large, attributes: {size: {string: l}}, ` + counted + `30Gi}}}]}, {name: small, attributes: {size: {string: s}}, ` + counted + `20Gi}}}]}]`
				if minor() == "1.34" { // counter sets and the devices that consume them are in one slice
					all(published("counters", 1, devices+sets))(w)
				} else {
					all(published("counters", 2, strings.TrimPrefix(sets, ", ")), published("devices", 2, devices))(w)
				}
				holding(selector(`device.attributes["$.example.com"].size == "l"`))(w)
				all(claim("wants", selector(`device.attributes["$.example.com"].size == "s"`)), pod("waits", named+"wants", ""))(w)
			}, nil},
		{"binding", why.BindingCondition, "gpu-0 of pool binding-node-0 is allocated, but driver binding.example.com has not reported its binding condition attached",
			all(slice("node-0", `{name: gpu-0, bindingConditions: [attached], bindingFailureConditions: [broken]}`), claim("wants", ""), pod("waits", named+"wants", "")),
			func(w *world) {
				claims := w.client.ResourceV1().ResourceClaims(w.name)
				w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // kube-scheduler writes the status, too
					claim, err := claims.Get(w.Context(), "wants", metav1.GetOptions{})
					if err != nil {
						return err
					}
					claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: w.name + ".example.com", Pool: w.name + "-node-0", Device: "gpu-0",
						Conditions: []metav1.Condition{{Type: "attached", Status: metav1.ConditionTrue, Reason: "Attached", LastTransitionTime: metav1.NewTime(time.Now())}}}}
					_, err = claims.UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
					return err
				}))
			}},
	}
}

// pods are the cases about what a pod waits for apart from devices.
func pods() []waiting {
	const (
		extended = `, resources: {requests: {example.com/$: "2"}, limits: {example.com/$: "2"}}`
		group    = `
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}}`
		member = ", schedulingGroup: {podGroupName: train}"
	)
	return []waiting{
		{"scheduler", why.SchedulerMissing, "no scheduler gpu-scheduler has processed the pod",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), pod("waits", named+"wants", ", schedulerName: gpu-scheduler")), nil},
		{"cpu", why.NodeResources, "the devices are available, but the pod requests 100 cpu and the largest node has 64",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), podOf("waits", ", resourceClaims: [{name: gpu, resourceClaimName: wants}]", `, resources: {requests: {cpu: "100"}}`)), nil},
		{"extended", why.ResourceUnknown, "no node and no DeviceClass has the extended resource example.com/extended",
			all(slice("node-0", gpu("gpu-0", "A100")+","+gpu("gpu-1", "A100")), podOf("waits", "", extended)), nil},
		{"extended-count", why.CountTooLarge, "asks for 2 devices; at most 1 can be allocated on one node (node-0)",
			func(w *world) {
				all(slice("node-0", gpu("gpu-0", "A100")))(w)
				w.shell(`kubectl patch deviceclass extended-count --type=merge -p '{"spec":{"extendedResourceName":"example.com/extended-count"}}'`)
				all(podOf("waits", "", extended))(w)
			}, nil},
		{"group", why.GroupIncomplete, "PodGroup train needs 2 pods at once; 1 exist",
			all(slice("node-0", gpu("gpu-0", "A100")), claim("wants", ""), group, pod("waits", named+"wants", member)), nil},
	}
}
