package drain_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

func (s site) reactions() dynamic.ResourceInterface {
	untyped, err := dynamic.NewForConfig(cluster.Config())
	do(s, err)
	return untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceReactionResource))
}

// otherTests acknowledges the evictions of other tests, which the window of the guard has, too.
const otherTests = "pods<=999,namespaces<=99"

// react creates a reaction of the test's name to a taint of the test's driver.
func (s site) react(change func(*v1alpha1.DeviceReactionSpec)) {
	s.Helper()
	r := &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: s.name, Annotations: map[string]string{v1alpha1.AcknowledgementAnnotation: otherTests}}}
	r.APIVersion, r.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceReactionKind
	r.Spec = v1alpha1.DeviceReactionSpec{
		Mode:     v1alpha1.ReactionAct,
		When:     v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid", From: v1alpha1.TaintFromDriver}, For: &metav1.Duration{Duration: 5 * time.Second}},
		Selector: &v1alpha1.DrainSelector{Driver: &s.driver},
		Brake:    v1alpha1.ReactionBrake{Devices: ptr.To[int32](100)}, // other tests have reactions, too
	}
	change(&r.Spec)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	do(s, err)
	do(s, s.create(s.reactions().Create(s.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})))
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		if s.Failed() {
			s.Logf("reaction: %+v", s.reaction(ctx).Status)
		}
		_ = s.reactions().Delete(ctx, s.name, metav1.DeleteOptions{})
		_ = drains.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: v1alpha1.ReactionLabel + "=" + s.name})
	})
}

func (s site) reaction(ctx context.Context) *v1alpha1.DeviceReaction {
	r := &v1alpha1.DeviceReaction{}
	object, err := s.reactions().Get(ctx, s.name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, r)
	}
	if err != nil {
		s.Logf("reaction %s: %v", s.name, err)
	}
	return r
}

// state waits until a device has a state.
func (s site) state(node, device int, state v1alpha1.ReactionState) (found v1alpha1.ReactionDevice) {
	s.Helper()
	s.eventually(fmt.Sprintf("gpu-%d of node-%d is %s", device, node, state), func(ctx context.Context) (bool, error) {
		for _, d := range s.reaction(ctx).Status.Devices {
			if d.Pool == fmt.Sprint("node-", node) && d.Device == fmt.Sprint("gpu-", device) {
				found = d
			}
		}
		return found.State == state, nil
	})
	return found
}

// sick lets the driver taint devices of a node, and no others.
func (s site) sick(node int, devices ...int) {
	s.Helper()
	s.taint(node, resourceapi.DeviceTaint{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}, devices...)
}

// taint lets the driver publish a taint on devices of a node, and no other taint.
func (s site) taint(node int, taint resourceapi.DeviceTaint, devices ...int) {
	s.Helper()
	s.republish(node, func(i int, device *resourceapi.Device) {
		device.Taints = nil
		if slices.Contains(devices, i) {
			device.Taints = []resourceapi.DeviceTaint{taint}
		}
	})
}

// republish lets the driver change the devices of a node.
func (s site) republish(node int, change func(i int, device *resourceapi.Device)) {
	s.Helper()
	api := c.ResourceV1().ResourceSlices()
	do(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		slice, err := api.Get(s.Context(), fmt.Sprintf("%s-node-%d", s.name, node), metav1.GetOptions{})
		if err != nil {
			return err
		}
		slice.Spec.Pool.Generation++
		for i := range slice.Spec.Devices {
			change(i, &slice.Spec.Devices[i])
		}
		return s.create(api.Update(s.Context(), slice, metav1.UpdateOptions{}))
	}))
}

// theDrain waits for the one drain of the reaction: the status is written before it.
func (s site) theDrain() (name string) {
	s.Helper()
	s.eventually("the reaction has a drain", func(ctx context.Context) (bool, error) {
		made := s.made(ctx)
		if len(made) == 1 {
			name = made[0].GetName()
		}
		return len(made) == 1, nil
	})
	return name
}

// made returns the drains of the reaction.
func (s site) made(ctx context.Context) []unstructured.Unstructured {
	list, err := drains.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ReactionLabel + "=" + s.name})
	do(s, err)
	return list.Items
}

func (s site) paused(ctx context.Context) string {
	c := meta.FindStatusCondition(s.reaction(ctx).Status.Conditions, v1alpha1.ReactionPaused)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Reason
}

// TestReaction: the driver taints a device that a pod of a budget holds. The reaction drains it
// within the budget, the device stays cordoned when the driver takes the taint back, and is used
// again when a user acknowledges it.
func TestReaction(t *testing.T) {
	s := newSite(t, "reaction", 1)
	s.publish(0, 2, 0)
	s.publish(1, 2, 1)
	s.replicas("web", 1, "")
	s.publish(0, 3, 4)
	s.budget("web", "web", 1)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) { spec.Brake.PercentOfDriver = ptr.To[int32](50) })
	s.sick(1, 0)
	begun := time.Now()
	s.state(1, 0, v1alpha1.ReactionDraining)
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the drain exists after %s", took)
	}
	drain := s.theDrain()
	s.wait(drain, "Blocked=True BudgetBlocked")
	do(s, c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.state(1, 0, v1alpha1.ReactionDrained)
	s.event(metav1.NamespaceDefault, v1alpha1.DeviceReactionKind, s.name, "Draining")
	if on := s.on("web"); !slices.Equal(on, []string{"node-0"}) {
		t.Errorf("the pod is on %v", on)
	}
	s.sick(1)
	s.eventually("the device is healthy", func(ctx context.Context) (bool, error) {
		return s.reaction(ctx).Status.Devices[0].HealthySince != nil, nil
	})
	s.wait(drain, "Cordoned=True Cordoned")
	expectOf(t, "acknowledge", cmdutil.ExitFailed, []string{"--reason: say why"}, s.driver+"/node-1/gpu-0")
	expectOf(t, "acknowledge", cmdutil.ExitFailed, []string{"no DeviceReaction has drained it"}, s.driver+"/node-0/gpu-0", "--reason=replaced")
	expectOf(t, "acknowledge", cmdutil.ExitClean, []string{"acknowledged: its reaction deletes devicedrain " + drain}, s.driver+"/node-1/gpu-0", "--reason=replaced")
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) {
		return len(s.made(ctx)) == 0 && len(s.cordon(ctx, drain)) == 0, nil
	})
	if d := s.state(1, 0, v1alpha1.ReactionAcknowledged); d.Message != "acknowledged: replaced" {
		t.Error(d.Message)
	}
	once(t, s.name)
}

// TestReactionStorm: four of eight devices become sick in one moment. Nothing is evicted, the
// reaction is paused and says how to go on; acknowledged, it drains one after the other.
func TestReactionStorm(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "storm", 8)
	s.publish(1, 2, 0)
	s.react(func(*v1alpha1.DeviceReactionSpec) {})
	s.sick(0, 0, 1, 2, 3)
	s.eventually("the reaction is paused", func(ctx context.Context) (bool, error) { return s.paused(ctx) == v1alpha1.PausedBrake, nil })
	s.event(metav1.NamespaceDefault, v1alpha1.DeviceReactionKind, s.name, v1alpha1.ReactionPaused)
	s.state(0, 3, v1alpha1.ReactionWaiting)
	if made := s.made(t.Context()); len(made) != 0 {
		t.Errorf("%d drains", len(made))
	}
	if out, err := cluster.Kubectl(t.Context(), "annotate", "--overwrite", "devicereaction", s.name, v1alpha1.AcknowledgementAnnotation+"=devices<=4,"+otherTests).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	most := 0
	s.eventually("all four are drained", func(ctx context.Context) (bool, error) {
		counts := s.reaction(ctx).Status.Counts
		most = max(most, int(counts.Draining))
		return counts.Drained == 4, nil
	})
	if most > 1 {
		t.Errorf("%d drains at a time", most)
	}
}

// TestReactionToNode: the condition of a node makes its devices sick, and no others.
func TestReactionToNode(t *testing.T) {
	s := newSite(t, "condition", 2)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.When.Taint, spec.When.NodeCondition = nil, &v1alpha1.CauseNodeCondition{Type: "example.com/GPUsFailing", Reason: "FellOffTheBus"}
		spec.Brake = v1alpha1.ReactionBrake{DevicesPerPool: ptr.To[int32](2), PercentOfDriver: ptr.To[int32](100), Devices: ptr.To[int32](100)}
		spec.Then.CordonOnly = true
		spec.End = v1alpha1.ReactionEnd{Uncordon: v1alpha1.UncordonWhenHealthy, After: &metav1.Duration{Duration: 5 * time.Second}}
	})
	set := func(status string) {
		patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "example.com/GPUsFailing", "status": %q, "reason": "FellOffTheBus", "message": "test"}]}}`, status)
		do(s, s.create(c.CoreV1().Nodes().Patch(s.Context(), "node-1", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")))
	}
	set("True")
	defer set("False")
	s.state(1, 0, v1alpha1.ReactionDraining)
	s.state(1, 1, v1alpha1.ReactionDraining)
	s.eventually("both devices have a drain", func(ctx context.Context) (bool, error) { return len(s.made(ctx)) == 2, nil })
	for _, d := range s.made(t.Context()) {
		s.wait(d.GetName(), "Cordoned=True Cordoned")
	}
	if n := len(s.reaction(t.Context()).Status.Devices); n != 2 {
		t.Errorf("%d devices are sick", n)
	}
	set("False")
	s.eventually("the cordons are lifted", func(ctx context.Context) (bool, error) { return len(s.made(ctx)) == 0, nil })
	s.state(1, 0, v1alpha1.ReactionHealthy)
}

// TestReactionToHealth: a pod reports that its device is unhealthy. The device is drained, and stays
// sick when no pod reports its health any more.
func TestReactionToHealth(t *testing.T) {
	s := newSite(t, "health", 1)
	s.publish(0, 2, 0)
	s.replicas("web", 1, "")
	s.publish(0, 3, 4)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.When.Taint, spec.When.DeviceHealth = nil, &v1alpha1.CauseDeviceHealth{}
		spec.Brake.PercentOfDriver = ptr.To[int32](50)
	})
	pods, err := c.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
	do(s, err)
	patch := fmt.Sprintf(`{"status": {"containerStatuses": [{"name": "train", "image": "a", "imageID": "a", "ready": true, "restartCount": 0, "state": {"running": {}},
		"allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [{"resourceID": %q, "health": "Unhealthy", "message": "ECC"}]}]}]}}`, s.driver+"/node-1/gpu-0")
	do(s, s.create(c.CoreV1().Pods(s.name).Patch(t.Context(), pods.Items[0].Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")))
	if d := s.state(1, 0, v1alpha1.ReactionDraining); d.Cause != "pod health/"+pods.Items[0].Name+" reports Unhealthy: ECC" {
		t.Error(d.Cause)
	}
	if d := s.state(1, 0, v1alpha1.ReactionDrained); d.SickSince == nil {
		t.Errorf("%+v", d)
	}
}

// TestReactionKilled: the controller is killed again and again while a device goes from sick to
// used again: there is one drain, and its pod is evicted once.
func TestReactionKilled(t *testing.T) {
	s := newSiteAlone(t, "reactkill", 1)
	s.publish(0, 2, 0)
	s.replicas("web", 1, "")
	s.publish(0, 3, 4)
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.Brake.PercentOfDriver = ptr.To[int32](50)
		spec.End = v1alpha1.ReactionEnd{Uncordon: v1alpha1.UncordonWhenHealthy, After: &metav1.Duration{Duration: 5 * time.Second}}
	})
	again := func() {
		t.Helper()
		do(s, steward.kill())
		do(s, steward.start())
	}
	s.sick(1, 0)
	s.state(1, 0, v1alpha1.ReactionSick)
	again()
	s.state(1, 0, v1alpha1.ReactionDraining)
	again()
	s.eventually("the pod is evicted", func(context.Context) (bool, error) { return len(evicted(t, s.name)) == 1, nil })
	again()
	s.state(1, 0, v1alpha1.ReactionDrained)
	again()
	s.sick(1)
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) { return len(s.made(ctx)) == 0, nil })
	again()
	s.state(1, 0, v1alpha1.ReactionHealthy)
	created := 0
	for _, e := range asked(t, "", v1alpha1.DeviceDrainResource, "") {
		if e.Verb == "create" && e.ResponseStatus.Code < 300 && s.mine(e.ObjectRef.Name) {
			created++
		}
	}
	if once(t, s.name); created != 1 {
		t.Errorf("%d drains were created", created)
	}
}

// expectOf runs a command of the program against the cluster.
func expectOf(t *testing.T, name string, code int, texts []string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if got := cli.Run(t.Context(), append([]string{name, "--kubeconfig=" + cluster.Kubeconfig()}, args...), cmdutil.Streams{Out: &out, Err: &out}); got != code {
		t.Errorf("%s %q: exit code %d, want %d", name, args, got, code)
	}
	for _, text := range texts {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%s %q: no %q in\n%s", name, args, text, out.String())
		}
	}
}

func (s site) mine(drain string) bool { return strings.HasPrefix(drain, s.name+"-") }
