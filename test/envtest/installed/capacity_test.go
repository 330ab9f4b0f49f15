package installed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

// TestCapacityMetrics: with the rights that the chart gives it, the controller counts what is left
// of a class: a node has four devices, of which one is tainted, and another node is not ready.
// Without controller.capacityMetrics it serves no such metric.
func TestCapacityMetrics(t *testing.T) {
	values := quick()
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	const driver = "left.example.com"
	for name, status := range map[string]corev1.ConditionStatus{"left-ready": corev1.ConditionTrue, "left-lost": corev1.ConditionFalse} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := clients.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		must(t, err)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}}
		for i := range 4 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("device-", i)})
		}
		slice.Spec.Devices[3].Taints = []resourceapi.DeviceTaint{{Key: driver + "/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		_, err = clients.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		must(t, err)
		_, err = clients.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = clients.ResourceV1().ResourceSlices().Delete(context.Background(), name, metav1.DeleteOptions{})
			_ = clients.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}}}
	_, err := clients.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = clients.ResourceV1().DeviceClasses().Delete(context.Background(), driver, metav1.DeleteOptions{})
	})
	if body := metricsOf(t, kubelet.Pods("controller")[0]); strings.Contains(body, "dra_steward_capacity_") {
		t.Error("there are metrics of capacity without controller.capacityMetrics")
	}
	values["controller"] = map[string]any{"capacityMetrics": true}
	install(t, values)
	eventually(t, "the class is counted", func(context.Context) error {
		body := metricsOf(t, kubelet.Pods("controller")[0])
		for _, want := range []string{
			`dra_steward_capacity_class_devices{class="left.example.com",state="allocatable"} 3`,
			`dra_steward_capacity_class_devices{class="left.example.com",state="tainted"} 1`,
			`dra_steward_capacity_class_devices{class="left.example.com",state="unreachable"} 4`,
			`dra_steward_capacity_devices{driver="left.example.com",state="allocatable"} 3`,
			`dra_steward_capacity_fits{class="left.example.com",devices="1"} 3`,
			`dra_steward_capacity_fits{class="left.example.com",devices="2"} 1`,
			`dra_steward_capacity_fits{class="left.example.com",devices="4"} 0`,
		} {
			if !strings.Contains(body, want+"\n") {
				return fmt.Errorf("no %s in\n%s", want, strings.Join(regexp.MustCompile(`(?m)^dra_steward_capacity_.*$`).FindAllString(body, -1), "\n"))
			}
		}
		return nil
	})
}

// metricsOf are those that a pod serves by HTTP; empty while it does not.
func metricsOf(t *testing.T, pod *installed.Pod) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pod.URL("metrics", "/metrics"), nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Log(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}
