package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// equalCount is how many devices have equal attributes.
const equalCount = 8

// equal are devices with equal attributes, until they have a UUID each.
func equal(identified bool, sick ...string) (devices []resourceapi.Device) {
	for i := range equalCount {
		device := resourceapi.Device{Name: fmt.Sprint("dev-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("A")}}}
		if identified {
			device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To("GPU-" + device.Name)}
		}
		if slices.Contains(sick, device.Name) {
			device.Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		devices = append(devices, device)
	}
	return devices
}

// without are the equal devices that are not held.
func without(held []string) (free []string) {
	for i := range equalCount {
		if name := fmt.Sprint("dev-", i); !slices.Contains(held, name) {
			free = append(free, name)
		}
	}
	return free
}

// publish lets the driver publish devices, and waits until the slices have them.
func (w *world) publish(devices []resourceapi.Device) {
	w.Helper()
	w.must(w.driver.publish(w.Context(), devices))
	w.eventually("the devices are published", func(ctx context.Context) (bool, string) {
		list, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + w.driver.name})
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Sprint(err, " slices")
		}
		published := list.Items[0].Spec.Devices
		return slices.EqualFunc(published, devices, func(a, b resourceapi.Device) bool {
			return a.Name == b.Name && len(a.Taints) == len(b.Taints) && len(a.Attributes) == len(b.Attributes)
		}), fmt.Sprint(len(published), " devices")
	})
}

// held are the devices that claims of a namespace have, sorted.
func (w *world) held(ctx context.Context, namespace string) (devices []string) {
	claims, err := w.client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.Log(err)
		return nil
	}
	for i := range claims.Items {
		if allocation := claims.Items[i].Status.Allocation; allocation != nil {
			for _, result := range allocation.Devices.Results {
				devices = append(devices, result.Device)
			}
		}
	}
	slices.Sort(devices)
	return devices
}

// reactionTo is a reaction with a proof, which ends by itself.
func reactionTo(name string, when v1alpha1.ReactionCause) *v1alpha1.DeviceReaction {
	when.For = &metav1.Duration{Duration: 5 * time.Second}
	return &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.DeviceReactionSpec{
		Mode: v1alpha1.ReactionAct, When: when, Selector: &v1alpha1.DrainSelector{Driver: ptr.To(driverName)},
		Prove: &v1alpha1.ReactionProve{DeviceClassName: driverName, Timeout: &metav1.Duration{Duration: 5 * time.Minute}, Template: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "check", "image": %q, "resources": {"claims": [{"name": "device"}]}}]}}`, image)}},
		End: v1alpha1.ReactionEnd{Uncordon: v1alpha1.UncordonWhenHealthy, After: &metav1.Duration{Duration: 5 * time.Second}},
	}}
}

// cordonByHand cordons devices as a person does who evicts nobody.
func (s *controlled) cordonByHand(devices ...string) {
	s.Helper()
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: v1alpha1.DeviceDrainSpec{Paused: true}}
	for _, device := range devices {
		drain.Spec.Devices = append(drain.Spec.Devices, v1alpha1.DeviceName{Driver: driverName, Pool: nodeName, Device: device})
	}
	s.create(drain)
	s.eventually("the devices are cordoned", func(ctx context.Context) (bool, string) {
		n := s.rules(ctx, drain.Name)
		return n == len(devices), fmt.Sprint(n, " rules")
	})
}

// TestReaction: of eight equal devices of a node, two are cordoned, and pods of a budget have three. The
// driver taints one of these. It is drained within the budget; it stays cordoned while no claim can name
// it, and while its proof fails. When the driver has taken the taint back and the proof passes, a pod
// gets it again. What containers of proofs got is what the kubelet let the driver prepare.
func TestReaction(t *testing.T) {
	w := newWorld(t)
	w.createClass()
	w.publish(equal(false))
	s := w.control()
	w.replicas("web", driverName, 3)
	w.budget("web", 2)
	fewest := w.watched("web")
	held := w.held(t.Context(), "default")
	if len(held) != 3 {
		t.Fatalf("the pods have %v", held)
	}
	sick := held[1]
	free := without(held)
	s.cordonByHand(free[:2]...)
	s.create(reactionTo("xid", v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid", From: v1alpha1.TaintFromDriver}}))

	begin := time.Now()
	w.publish(equal(false, sick))
	drain := s.drainOf("xid", "")
	took(t, "the drain exists after the taint", begin, 30*time.Second)
	s.drainOf("xid", "Drained=True")
	w.ready("web", 3)
	if now := w.held(t.Context(), "default"); slices.Contains(now, sick) || slices.Contains(now, free[0]) || slices.Contains(now, free[1]) || len(now) != 3 {
		t.Errorf("the pods have %v; %s is sick, %v are cordoned", now, sick, free[:2])
	}
	if message := s.provenIs("xid", v1alpha1.ProofUnprovable); !strings.Contains(message, "no attribute tells the device from the other devices") {
		t.Error(message)
	}

	w.publish(equal(true, sick))
	s.attempt(1, sick, 3)
	message := s.provenIs("xid", v1alpha1.ProofFailed)
	if want := fmt.Sprintf("gpu.example.com/n1/%s: the Job failed: container check, exit code 3: check 1 of %[1]s is done", sick); message != want {
		t.Errorf("Proven is false: %q, want %q", message, want)
	}
	if n := s.rules(t.Context(), drain); n != 1 || s.drainOf("xid", "Cordoned=True") != drain {
		t.Errorf("%d rules cordon the device after its proof has failed", n)
	}
	w.publish(equal(true))
	s.attempt(2, sick, 0)
	s.uncordoned("xid", drain)
	w.usesAgain(sick)
	if n := fewest(); n < 2 {
		t.Errorf("%d replicas were ready, want 2", n)
	}
}

// attempt lets the pod of an attempt end with a code, when the kubelet has prepared exactly this device
// for it.
func (s *controlled) attempt(attempt int, device string, code int32) {
	s.Helper()
	pod, claim := s.proofPod(attempt)
	if gave := s.driver.gave(proofs, claim); !slices.Equal(gave, []string{device}) {
		s.Errorf("for attempt %d the driver prepared %v, want %s", attempt, gave, device)
	}
	environment := s.environments()[pod+"/check"]
	if want := strings.ReplaceAll(device, "-", "_") + "=" + proofs + "/" + claim + "/device"; environment != want {
		s.Errorf("the container of attempt %d has %q, want %q", attempt, environment, want)
	}
	s.exit(pod, "check", code, fmt.Sprintf("check %d of %s is done", attempt, device))
}

// usesAgain runs a pod that gets a device by its UUID.
func (w *world) usesAgain(device string) {
	w.Helper()
	request := exactly("r", 1)
	request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].uuid == %q", driverName, "GPU-"+device)}}}
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "after"}, Spec: claimSpec(request)})
	w.run(pod("default", "after", named("after"), container("main", corev1.ResourceClaim{Name: "c"})))
	if gave := w.driver.gave("default", "after"); !slices.Equal(gave, []string{device}) {
		w.Errorf("the driver prepared %v, want %s", gave, device)
	}
}

// TestReactionToHealth: a driver reports the device of a pod as unhealthy, the kubelet writes that into
// the status of the pod, and the device is drained within the budget. It stays sick when its pod has
// left, although the driver reports it as healthy: the pod of its proof says so, and passes.
func TestReactionToHealth(t *testing.T) {
	w := newWorld(t)
	w.createClass()
	w.publish(equal(true))
	s := w.control()
	w.replicas("web", driverName, 2)
	w.budget("web", 1)
	fewest := w.watched("web")
	held := w.held(t.Context(), "default")
	if len(held) != 2 {
		t.Fatalf("the pods have %v", held)
	}
	sick := held[0]
	s.create(reactionTo("health", v1alpha1.ReactionCause{DeviceHealth: &v1alpha1.CauseDeviceHealth{}}))
	w.reportHealth(sick)
	begin := time.Now()
	drain := s.drainOf("health", "")
	took(t, "the drain exists after the report of the driver", begin, 30*time.Second)
	if d := s.device("health", sick); !strings.HasPrefix(d.Cause, "pod default/web-") || !strings.HasSuffix(d.Cause, " reports Unhealthy") {
		t.Errorf("the cause is %q", d.Cause)
	}
	s.drainOf("health", "Drained=True")
	w.ready("web", 2)
	if now := w.held(t.Context(), "default"); slices.Contains(now, sick) || len(now) != 2 {
		t.Errorf("the pods have %v; %s is sick", now, sick)
	}
	if d := s.device("health", sick); d.SickSince == nil {
		t.Errorf("without a pod the device is no longer sick: %+v", d)
	}

	w.reportHealth("")
	s.eventually("the pod of the proof reports the device as healthy", func(ctx context.Context) (bool, string) {
		d := s.device("health", sick)
		return d.HealthySince != nil, fmt.Sprintf("%+v", d)
	})
	if n := s.rules(t.Context(), drain); n != 1 {
		t.Errorf("%d rules cordon the device before its proof has ended", n)
	}
	s.attempt(1, sick, 0)
	s.uncordoned("health", drain)
	w.usesAgain(sick)
	if n := fewest(); n < 1 {
		t.Errorf("%d replicas were ready, want 1", n)
	}
}

// reportHealth lets the driver report all devices as healthy, except one.
func (w *world) reportHealth(sick string) {
	report := kubeletplugin.DeviceHealthReport{}
	for _, device := range equal(true) {
		health := kubeletplugin.HealthStatusHealthy
		if device.Name == sick {
			health = kubeletplugin.HealthStatusUnhealthy
		}
		report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{PoolName: nodeName, DeviceName: device.Name, Health: health, LastUpdated: time.Now(), HealthCheckTimeout: time.Hour})
	}
	w.driver.reports <- report
}

// device is what a reaction knows of a device.
func (s *controlled) device(reaction, name string) (found v1alpha1.ReactionDevice) {
	for _, d := range s.reaction(s.Context(), reaction).Status.Devices {
		if d.Device == name {
			found = d
		}
	}
	return found
}
