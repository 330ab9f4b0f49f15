package node

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/console"
)

// TestConsole: a browser follows a device that the kubelet prepares for a pod, a taint that the driver publishes, and a
// drain from the budget that blocks it until it is drained and the driver has the device back.
func TestConsole(t *testing.T) {
	console.Chromium(t)
	w := newWorld(t)
	w.createClass()
	s := w.control()
	page := console.Open(t, console.Run(t, inside.cluster.Kubeconfig()))
	const device, tainted = "dev-0", "dev-2"
	shows(page, device, "free")
	s.replicas("web", driverName, 1)
	shows(page, device, "held")
	w.publishTainted(t, tainted)
	shows(page, tainted, "free, noschedule")
	s.budget("web", 1)
	s.create(&v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "seen"}, Spec: v1alpha1.DeviceDrainSpec{
		Devices: []v1alpha1.DeviceName{{Driver: driverName, Pool: nodeName, Device: device}}}})
	shows(page, device, "held, draining")
	page.Navigate("/drain?name=seen")
	page.Await("the drain is Blocked", `document.querySelector("h1 .state")?.textContent.startsWith("Blocked")`)
	if err := w.client.PolicyV1().PodDisruptionBudgets("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	page.Await("the drain is Drained", `document.querySelector("h1 .state")?.textContent.startsWith("Drained")`)
	page.Navigate("/")
	shows(page, device, "free, noschedule")
	s.ready("web", 1)
	shows(page, "dev-1", "held")
}

// publishTainted publishes the devices as before, one with a taint.
func (w *world) publishTainted(t *testing.T, tainted string) {
	t.Helper()
	var devices []resourceapi.Device
	for i := range deviceCount {
		device := resourceapi.Device{Name: fmt.Sprintf("dev-%d", i)}
		device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"name": {StringValue: &device.Name}}
		if device.Name == tainted {
			device.Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		devices = append(devices, device)
	}
	if err := w.driver.publish(t.Context(), devices); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the row of a device has a state.
func shows(page console.Window, device, state string) {
	page.Await(device+" is "+state, fmt.Sprintf(
		`[...document.querySelectorAll("tr[data-index]")].some(r => r.textContent.includes(%q) && r.querySelector(".state").textContent === %q)`, device, state))
}
