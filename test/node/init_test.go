package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// initialised is a pod of an init container, a sidecar and a container, each with its own request.
const initialised = "initialised"

// TestInitContainers: while an init container runs, it holds its device, which the kubelet does not
// list. When it has finished, the pod as a whole holds the device, and a taint of it is shown.
func TestInitContainers(t *testing.T) {
	w := newWorld(t)
	w.createClass()
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: initialised}, Spec: claimSpec(exactly("setup", 1), exactly("side", 1), exactly("main", 1))})
	uses := func(name string) corev1.Container {
		return container(name, corev1.ResourceClaim{Name: "c", Request: name})
	}
	side := uses("side")
	side.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	p := pod("default", initialised, named(initialised), uses("main"))
	p.Spec.InitContainers = []corev1.Container{side, uses("setup")}
	_, err := w.client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
	w.must(err)
	watch := startWatch(w)
	w.runs("setup")
	device := w.deviceOf(initialised, "setup")
	w.holds(watch, "setup", "side")
	if out := w.nodeHoldings(); !strings.Contains(out, "setup") || strings.Contains(out, "terminated") {
		t.Errorf("node holdings:\n%s", out)
	}

	w.exit(initialised, "setup", 0, "")
	w.runs("main")
	w.holds(watch, "main", "side")
	if at := w.podLevel(); !cmp.Equal(at, []string{device}) {
		t.Errorf("the pod as a whole holds %v, want the device of the finished init container, %s", at, device)
	}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "degraded"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To(driverName), Pool: ptr.To(nodeName), Device: &device},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/degraded", Effect: resourceapi.DeviceTaintEffectNoSchedule},
	}}
	_, err = w.client.ResourceV1().DeviceTaintRules().Create(t.Context(), rule, metav1.CreateOptions{})
	w.must(err)
	w.eventually("the taint is shown at the pod", func(context.Context) (bool, string) {
		lines := strings.Join(watch.metrics("device_taint_added_timestamp_seconds{"), "\n")
		return strings.Contains(lines, `pod="`+initialised+`"`) && strings.Contains(lines, `device="`+device+`"`), lines
	})
}

// runs waits until a container of the pod runs, by the status of the pod.
func (w *world) runs(container string) {
	w.Helper()
	w.eventually(container+" runs", func(ctx context.Context) (bool, string) {
		now, err := w.client.CoreV1().Pods("default").Get(ctx, initialised, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, status := range append(now.Status.InitContainerStatuses, now.Status.ContainerStatuses...) {
			if status.Name == container && status.State.Running != nil {
				return true, ""
			}
		}
		return false, fmt.Sprint(now.Status)
	})
}

// deviceOf is the device that is allocated for a request.
func (w *world) deviceOf(claim, request string) string {
	w.Helper()
	now, err := w.client.ResourceV1().ResourceClaims("default").Get(w.Context(), claim, metav1.GetOptions{})
	w.must(err)
	for _, result := range now.Status.Allocation.Devices.Results {
		if result.Request == request {
			return result.Device
		}
	}
	w.Fatalf("claim %s has no device for %s: %+v", claim, request, now.Status)
	return ""
}

// holds compares what running containers have in their environment with the holdings, and with the
// socket of the agent. The kubelet does not list an init container that ends.
func (w *world) holds(watch *watch, containers ...string) {
	w.Helper()
	truth := w.environments()
	client := podresources.New(podresources.Options{})
	defer client.Close()
	in := w.read(client)
	listed, _ := raw(in.Listing)
	if listed[initialised+"/setup"] != "" {
		w.Errorf("the kubelet lists init containers: %v", listed)
	}
	holdings := attributed(podresources.Attribute(in))
	served := podresources.New(podresources.Options{Socket: watch.socket})
	defer served.Close()
	var corrected map[string]string
	w.eventually("the agent serves", func(ctx context.Context) (bool, string) {
		listing, err := served.List(ctx, time.Now())
		if err == nil {
			corrected, _ = raw(listing)
		}
		return err == nil && corrected[initialised+"/"+containers[0]] != "", fmt.Sprint(err, corrected)
	})
	for _, name := range containers {
		at := initialised + "/" + name
		// The API has no requests.
		if truth[at] == "" || holdings[at] != truth[at] || !strings.HasPrefix(truth[at], corrected[at]) || corrected[at] == "" {
			w.Errorf("%s has %q; the holdings have %q, the agent serves %q", at, truth[at], holdings[at], corrected[at])
		}
	}
	if containers[0] != "setup" && (holdings[initialised+"/setup"] != "" || corrected[initialised+"/setup"] != "") {
		w.Errorf("the finished init container holds %q, the agent serves %q", holdings[initialised+"/setup"], corrected[initialised+"/setup"])
	}
}

// podLevel are the devices that the pod as a whole holds.
func (w *world) podLevel() (devices []string) {
	client := podresources.New(podresources.Options{})
	defer client.Close()
	for _, h := range podresources.Attribute(w.read(client)) {
		if h.Pod == initialised && h.Container == "" {
			devices = append(devices, h.Device)
		}
	}
	return devices
}
