package drain_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestReactionTypeDeleted deletes the CustomResourceDefinitions of reactions and of drains while a
// reaction has one drain that is blocked by a budget, and one that is done, and installs them again. The
// controller goes on, also when it starts without the type, evicts no pod, and lifts no cordon. A reaction
// of the same name takes over what drains there are.
func TestReactionTypeDeleted(t *testing.T) {
	takesMinutes(t)
	s := newSiteAlone(t, "reactiontype", 3)
	s.publish(0, 2, 0)
	s.replicas("web", 2, "")
	s.publish(0, 3, 4)
	s.budget("web", "web", 2)
	s.reactToThree()
	s.sick(1, 0, 2)
	s.state(1, 2, v1alpha1.ReactionDrained)
	s.state(1, 0, v1alpha1.ReactionDraining)
	running, made := pods(t, s.name), uids(s.made(t.Context()))
	cordons := s.cordons(t.Context())
	if len(made) != 2 || len(cordons) != 2 {
		t.Fatalf("%d drains, %d cordons", len(made), len(cordons))
	}

	s.deleteType(v1alpha1.DeviceReactionResource)
	do(s, steward.kill())
	do(s, steward.start())
	runs := steward.runs
	s.free("gpu-0")
	do(s, s.create(install()))
	s.reactToThree()
	s.state(1, 2, v1alpha1.ReactionDrained)
	s.state(1, 0, v1alpha1.ReactionDraining)
	if now := uids(s.made(t.Context())); !maps.Equal(now, made) {
		t.Errorf("the drains are %v, were %v", now, made)
	}

	s.deleteType(v1alpha1.DeviceDrainResource)
	for rule := range cordons {
		s.event(metav1.NamespaceDefault, "DeviceTaintRule", rule, "CordonKept")
	}
	if d := s.state(1, 0, v1alpha1.ReactionAcknowledged); !strings.Contains(d.Message, "was deleted") {
		t.Error(d.Message)
	}
	s.state(1, 2, v1alpha1.ReactionAcknowledged)
	s.sick(1, 0, 1, 2)
	s.eventually("the controller says that it has no drains", func(context.Context) (bool, error) {
		log, err := os.ReadFile(steward.log())
		return strings.Contains(string(log), "create DeviceDrain "+s.name+"-"), err
	})
	do(s, s.create(install()))
	s.wait(s.theDrain(), "Blocked=True BudgetBlocked") // that of the third device
	s.state(1, 1, v1alpha1.ReactionDraining)
	if now := s.cordons(t.Context()); !contains(now, cordons) {
		t.Errorf("the cordons are %v, were %v", now, cordons)
	}

	s.deleteType(v1alpha1.DeviceReactionResource)
	s.deleteType(v1alpha1.DeviceDrainResource)
	do(s, s.create(install()))
	s.reactToThree()
	s.state(1, 2, v1alpha1.ReactionDrained)
	drain := s.drainOfDevice("gpu-2")
	s.wait(drain, "Cordoned=True Cordoned")
	s.eventually("the kept cordons are replaced", func(ctx context.Context) (bool, error) { return len(s.cordons(ctx)) == 3, nil })
	expectOf(t, "acknowledge", cmdutil.ExitClean, []string{"acknowledged: its reaction deletes devicedrain " + drain}, s.driver+"/node-1/gpu-2", "--reason=replaced")
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) { return len(s.cordon(ctx, drain)) == 0, nil })
	s.untouchedBy(running, runs)
}

// reactToThree reacts to three devices of a pool at a time.
func (s site) reactToThree() {
	s.Helper()
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.Brake = v1alpha1.ReactionBrake{DevicesPerPool: new(int32(3)), PercentOfDriver: new(int32(100)), Devices: new(int32(100))}
	})
}

// deleteType deletes the CustomResourceDefinition of a resource with all objects, and waits until it has gone.
func (s site) deleteType(resource string) {
	s.Helper()
	definitions := s.untyped().Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	name := resource + "." + v1alpha1.Group
	do(s, definitions.Delete(s.Context(), name, metav1.DeleteOptions{}))
	s.eventually(name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := definitions.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// untouchedBy fails if a pod was evicted or replaced, or if the controller has ended.
func (s site) untouchedBy(before map[string]types.UID, runs int) {
	s.Helper()
	if after := pods(s.T, s.name); !maps.Equal(before, after) {
		s.Errorf("the pods are %v, were %v", after, before)
	}
	if n := len(evicted(s.T, s.name)); n > 0 {
		s.Errorf("%d pods were evicted", n)
	}
	select {
	case <-steward.ended:
		s.Error("the controller has ended")
	default:
	}
	if steward.runs != runs {
		s.Errorf("the controller was started %d times more", steward.runs-runs)
	}
}

// free drains a device that no pod has by hand.
func (s site) free(device string) {
	s.Helper()
	name := s.drain("-hand", v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{{Driver: s.driver, Pool: "node-0", Device: device}}})
	s.wait(name, "Drained=True Drained")
	do(s, drains.Delete(s.Context(), name, metav1.DeleteOptions{}))
}

// drainOfDevice is the drain that the reaction has made for a device of the second node.
func (s site) drainOfDevice(device string) (name string) {
	s.Helper()
	s.eventually("the reaction drains "+device, func(ctx context.Context) (bool, error) {
		for _, d := range s.reaction(ctx).Status.Devices {
			if d.Device == device && d.DrainUID != "" {
				name = d.Drain
			}
		}
		return name != "", nil
	})
	return name
}

// cordons are the rules of all drains of the reaction, with the device of each.
func (s site) cordons(ctx context.Context) map[string]string {
	list, err := rules.List(ctx, metav1.ListOptions{})
	do(s, err)
	found := map[string]string{}
	for _, rule := range list.Items {
		if s.mine(rule.GetLabels()["dra-steward.io/drain"]) {
			device, _, _ := unstructured.NestedString(rule.Object, "spec", "deviceSelector", "device")
			found[rule.GetName()] = device + " " + string(rule.GetUID())
		}
	}
	return found
}

// contains reports whether all entries of a map are in another.
func contains(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

func uids(objects []unstructured.Unstructured) map[string]types.UID {
	found := map[string]types.UID{}
	for i := range objects {
		found[objects[i].GetName()] = objects[i].GetUID()
	}
	return found
}
