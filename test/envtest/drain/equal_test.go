package drain_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// used returns a device that a pod of the test has.
func (s site) used() (node, device int) {
	s.Helper()
	claims, err := c.ResourceV1().ResourceClaims(s.name).List(s.Context(), metav1.ListOptions{})
	do(s, err)
	if len(claims.Items) == 0 || claims.Items[0].Status.Allocation == nil {
		s.Fatal("no claim has a device")
	}
	result := claims.Items[0].Status.Allocation.Devices.Results[0]
	node, err = strconv.Atoi(strings.TrimPrefix(result.Pool, "node-"))
	do(s, err)
	device, err = strconv.Atoi(strings.TrimPrefix(result.Device, "gpu-"))
	do(s, err)
	return node, device
}

// provenIs waits until the condition Proven of the reaction has a reason, and returns its message.
func (s site) provenIs(reason v1alpha1.ReactionProofState) (message string) {
	s.Helper()
	s.eventually("proven: "+string(reason), func(ctx context.Context) (bool, error) {
		proven := meta.FindStatusCondition(s.reaction(ctx).Status.Conditions, v1alpha1.ReactionProven)
		if proven == nil || proven.Reason != string(reason) {
			return false, nil
		}
		message = proven.Message
		return true, nil
	})
	return message
}

// TestReactionOfEqualDevices: eight devices have equal attributes, two of them are cordoned by a person
// on the node of a third, which a pod of a budget has when its driver taints it. It is drained within the
// budget. No claim can name it, so that it is unprovable, and stays cordoned, until the driver publishes
// UUIDs. Then the proof gets exactly this device. It fails, and the cordon stays; the driver takes the taint back, the
// next one passes, and the device is used again. The controller is killed after each step.
func TestReactionOfEqualDevices(t *testing.T) {
	takesMinutes(t)
	s := newSiteAlone(t, "equal", 4)
	s.replicas("web", 3, "")
	s.budget("web", "web", 2)
	fewest := s.watched("web")
	node, device := s.used()
	name := v1alpha1.DeviceName{Driver: s.driver, Pool: fmt.Sprint("node-", node), Device: fmt.Sprint("gpu-", device)}
	others := v1alpha1.DeviceDrainSpec{Paused: true}
	for i := 1; i <= 2; i++ {
		others.Devices = append(others.Devices, v1alpha1.DeviceName{Driver: s.driver, Pool: name.Pool, Device: fmt.Sprint("gpu-", (device+i)%4)})
	}
	s.drain("-by-hand", others)
	s.react(s.proveBy)
	again := func() {
		t.Helper()
		do(s, steward.kill())
		do(s, steward.start())
	}
	s.sick(node, device)
	begun := time.Now()
	s.state(node, device, v1alpha1.ReactionDraining)
	drain := s.theDrain()
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the drain exists after %s", took)
	}
	again()
	s.state(node, device, v1alpha1.ReactionDrained)
	if message := s.provenIs(v1alpha1.ProofUnprovable); !strings.Contains(message, "no attribute tells the device from the other devices") {
		t.Error(message)
	}
	again()
	seen := map[string]types.UID{}
	s.identify(node)
	s.tested(seen, 1, name, corev1.PodFailed)
	again()
	if message := s.provenIs(v1alpha1.ProofFailed); !strings.Contains(message, name.String()) {
		t.Error(message)
	}
	s.wait(drain, "Cordoned=True Cordoned")
	s.sick(node)
	s.tested(seen, 2, name, corev1.PodSucceeded)
	again()
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) {
		_, err := s.jobs(ctx, seen)
		return err == nil && len(s.made(ctx)) == 0 && len(s.cordon(ctx, drain)) == 0, err
	})
	s.usedAgain(fmt.Sprintf("GPU-%d-%d", node, device))
	if n := fewest(); n < 2 || len(seen) != 2 || once(t, s.name) != 1 {
		t.Errorf("%d replicas were ready, want 2; Jobs %v; evicted %v", n, seen, evicted(t, s.name))
	}
}

// TestReactionFlaps: a driver taints a device and takes the taint back, again and again. There is one
// drain, the status says that the device flaps, and the cordon stays though the device has been
// healthy for longer than spec.end.after.
func TestReactionFlaps(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "flaps", 2)
	s.identify(0)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		s.proveBy(spec)
		spec.Prove, spec.End.After = nil, &metav1.Duration{Duration: 30 * time.Second}
	})
	s.sick(0, 0)
	s.state(0, 0, v1alpha1.ReactionDrained)
	drain := s.theDrain()
	for i := range 14 {
		healthy := i%2 == 0
		if healthy {
			s.sick(0)
		} else {
			s.sick(0, 0)
		}
		s.eventually(fmt.Sprintf("change %d is seen", i), func(ctx context.Context) (bool, error) {
			devices := s.reaction(ctx).Status.Devices
			return len(devices) == 1 && (devices[0].SickSince == nil) == healthy, nil
		})
	}
	s.eventually("the status says that it flaps", func(ctx context.Context) (bool, error) {
		return meta.IsStatusConditionTrue(s.reaction(ctx).Status.Conditions, v1alpha1.ReactionFlapping), nil
	})
	s.sick(0)
	s.eventually("the cordon stays", func(ctx context.Context) (bool, error) {
		devices := s.reaction(ctx).Status.Devices
		return len(devices) == 1 && strings.HasPrefix(devices[0].Message, "flapping: the cordon stays until it is acknowledged"), nil
	})
	s.wait(drain, "Cordoned=True Cordoned")
	if s.theDrain() != drain {
		t.Errorf("another drain than %s", drain)
	}
	created := 0
	for _, e := range asked(t, "", v1alpha1.DeviceDrainResource, "") {
		if e.Verb == "create" && e.ResponseStatus.Code < 300 && s.mine(e.ObjectRef.Name) {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d drains were created", created)
	}
}
