package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const attached, attachFailed = "binding.example.com/attached", "binding.example.com/failed"

// An attacher is a driver that attaches allocated devices to the node before the pod is bound
// (KEP-5007). The device of broken cannot be attached.
type attacher struct {
	site
	broken atomic.Bool
	// failed counts the allocations that it has failed.
	failed atomic.Int32
}

// run reports the outcome of each allocation in the status of its claim until the test ends.
func (a *attacher) run() {
	a.Helper()
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(context.WithoutCancel(a.Context()))
	go func() {
		defer close(ended)
		_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if err := a.report(ctx); err != nil && ctx.Err() == nil {
				a.Errorf("the driver: %v", err)
			}
			return false, nil
		})
	}()
	a.Cleanup(func() { stop(); <-ended })
}

func (a *attacher) report(ctx context.Context) error {
	api := c.ResourceV1().ResourceClaims(a.name)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Status.Allocation == nil || len(claim.Status.Devices) > 0 {
			continue
		}
		result := &claim.Status.Allocation.Devices.Results[0]
		outcome := metav1.Condition{Type: attached, Status: metav1.ConditionTrue, Reason: "Attached", LastTransitionTime: metav1.Now()}
		fails := result.Pool == "node-1" && a.broken.Load()
		if fails {
			outcome.Type, outcome.Reason, outcome.Message = attachFailed, "NoLink", "the link does not train"
		}
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: result.Driver, Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{outcome}}}
		switch _, err := api.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		case err != nil:
			return errors.Join(fmt.Errorf("claim %s", claim.Name), err)
		case fails:
			a.failed.Add(1)
		}
	}
	return nil
}

// attachable lets the driver publish devices that it attaches before a pod is bound.
func (s site) attachable(node int) {
	s.Helper()
	s.republish(node, func(_ int, device *resourceapi.Device) {
		device.BindsToNode = new(true)
		device.BindingConditions, device.BindingFailureConditions = []string{attached}, []string{attachFailed}
	})
}

// TestReactionToBinding: the driver cannot attach a device to the node for which kube-scheduler has
// allocated it. kube-scheduler takes the allocation back, the reaction cordons the device, and the pod
// starts with another one. The device is sick until another pod has it and it is attached.
func TestReactionToBinding(t *testing.T) {
	s := newSite(t, "binding", 1)
	s.publish(0, 2, 0)
	s.attachable(1)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.When.Taint, spec.When.BindingConditions = nil, &v1alpha1.CauseBindingConditions{Types: []string{attachFailed}}
		spec.Brake.PercentOfDriver = ptr.To[int32](100)
	})
	driver := &attacher{site: s}
	driver.broken.Store(true)
	driver.run()
	s.replicaSet("web", 1, fromTemplate) // its pod is not bound
	if d := s.state(1, 0, v1alpha1.ReactionSick); d.Cause == "" {
		t.Errorf("%+v", d)
	}
	s.state(1, 0, v1alpha1.ReactionDrained)
	drain := s.theDrain()
	s.wait(drain, "Cordoned=True Cordoned")
	if n := driver.failed.Load(); n == 0 {
		t.Error("no allocation was failed")
	}
	s.eventually("kube-scheduler has taken the allocation back", func(ctx context.Context) (bool, error) {
		list, err := c.ResourceV1().ResourceClaims(s.name).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Status.Allocation == nil, err
	})

	s.publish(0, 4, 1)
	s.attachable(0)
	s.ready("web", 1)
	if on := s.on("web"); !slices.Equal(on, []string{"node-0"}) {
		t.Errorf("the pod is on %v", on)
	}
	s.state(1, 0, v1alpha1.ReactionDrained)

	driver.broken.Store(false)
	expectOf(t, "acknowledge", cmdutil.ExitClean, []string{"acknowledged: its reaction deletes devicedrain " + drain}, s.driver+"/node-1/gpu-0", "--reason=replaced")
	s.state(1, 0, v1alpha1.ReactionAcknowledged)
	s.scale("web", 2)
	s.ready("web", 2)
	s.eventually("the device is healthy", func(ctx context.Context) (bool, error) {
		devices := s.reaction(ctx).Status.Devices
		return len(devices) == 1 && devices[0].HealthySince != nil && devices[0].SickSince == nil, nil
	})
	if made := s.made(t.Context()); len(made) != 0 {
		t.Errorf("%d drains", len(made))
	}
}
