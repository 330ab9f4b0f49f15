package why

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestPodCauses: causes that are not about the devices of a claim. The cases of the real
// scheduler are in test/envtest/why/causes.
func TestPodCauses(t *testing.T) {
	refused := func(message string) func(*corev1.Pod, *Cluster) {
		return func(pod *corev1.Pod, _ *Cluster) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		}
	}
	allocated := func(change func(*resourceapi.DeviceRequestAllocationResult, *resourceapi.ResourceClaim)) func(*corev1.Pod, *Cluster) {
		return func(_ *corev1.Pod, w *Cluster) {
			c := holding("train", "n1", "gpu-0")
			c.Namespace = "team-a"
			change(&c.Status.Allocation.Devices.Results[0], c)
			w.Claims = []*resourceapi.ResourceClaim{c}
		}
	}
	// stuck is a pod of a node whose grace period was over five minutes ago.
	stuck := func(node string) func(*corev1.Pod, *Cluster) {
		return func(pod *corev1.Pod, w *Cluster) {
			allocated(func(*resourceapi.DeviceRequestAllocationResult, *resourceapi.ResourceClaim) {})(pod, w)
			pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
			w.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			pod.DeletionTimestamp = &metav1.Time{Time: w.Now.Add(-5 * time.Minute)}
		}
	}
	const extended = corev1.ResourceName("example.com/gpu")
	extendedClass := func() *resourceapi.DeviceClass {
		c := class()
		c.Spec.ExtendedResourceName = new(string(extended))
		return c
	}
	// mixed is a cluster where a device plugin provides a resource on n1, which is in use, and a driver on a node whose
	// device has a taint.
	mixed := func(selector map[string]string, driver string) func(*corev1.Pod, *Cluster) {
		return func(pod *corev1.Pod, w *Cluster) {
			refused("0/2 nodes are available: 1 Insufficient example.com/gpu, 1 cannot allocate all claims.")(pod, w)
			w.PartialPods = true
			devices, one := gpus(1), corev1.ResourceList{extended: resource.MustParse("1")}
			devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			w.View, w.Claims, w.Nodes = tracker.Merge(extendedClass(), slice(driver, devices...)), nil, []*corev1.Node{node("n1"), node("n2")}
			w.Nodes[0].Labels, w.Nodes[0].Status.Allocatable = map[string]string{"of": "n1"}, one.DeepCopy()
			pod.Spec.NodeSelector, pod.Spec.ResourceClaims = selector, nil
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		}
	}
	for name, tt := range map[string]struct {
		change          func(*corev1.Pod, *Cluster)
		kind            Kind // empty for no cause
		message, remedy string
		command         string
		others          []Kind
	}{
		"available": {change: func(*corev1.Pod, *Cluster) {}, kind: NotTried, message: "the pod can run on node n1; kube-scheduler has not tried it yet"},
		"stale":     {change: refused("0/1 nodes are available: 1 cannot allocate all claims."), kind: NotTried, message: "has not tried it since that changed"},
		"gate": {change: func(pod *corev1.Pod, _ *Cluster) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
		},
			kind: SchedulingGate, message: "the pod has the scheduling gate example.com/queue"},
		"named twice": {change: func(pod *corev1.Pod, _ *Cluster) {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "again", ResourceClaimName: new("train")})
			uses := func(names ...string) (all []corev1.ResourceClaim) {
				for _, name := range names {
					all = append(all, corev1.ResourceClaim{Name: name})
				}
				return all
			}
			pod.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Claims: uses("again")}}, {Name: "b", Resources: corev1.ResourceRequirements{Claims: uses("gpu", "again")}}}
		}, kind: ClaimNamedTwice, message: "the pod has claim train under two names, gpu and again; kube-scheduler cannot reserve a claim twice for a pod",
			remedy:  "remove the name again, and let the containers use gpu",
			command: `kubectl patch pod train-0 -n team-a -p '{"spec":{"containers":[{"name":"a","resources":{"claims":[{"name":"gpu"}]}},{"name":"b","resources":{"claims":[{"name":"gpu"}]}}],"resourceClaims":[{"$patch":"delete","name":"again"}]}}'`},
		"no group": {change: func(pod *corev1.Pod, _ *Cluster) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
		}, kind: GroupIncomplete, message: "PodGroup train does not exist"},
		"unknown group": {change: func(pod *corev1.Pod, w *Cluster) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
			w.NoGroups = true
		}, kind: Unknown, message: "PodGroups were not read"},
		"group with ended pods": {change: func(pod *corev1.Pod, w *Cluster) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
			group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train"}}
			group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 2}
			ended := pod.DeepCopy()
			ended.Name, ended.Status.Phase = "ended", corev1.PodSucceeded
			w.Groups, w.Pods = []*schedulingapi.PodGroup{group}, []*corev1.Pod{pod, ended}
		}, kind: GroupIncomplete, message: "PodGroup train needs 2 pods at once; 1 exist", command: "kubectl patch podgroup.scheduling.k8s.io train -n team-a"},
		"a reason that is not known": {change: refused("0/1 nodes are available: 1 the site says no."), kind: Unknown, message: "the site says no"},
		"memory": {change: func(pod *corev1.Pod, w *Cluster) {
			refused("0/1 nodes are available: 1 Insufficient memory.")(pod, w)
			w.PartialPods = true
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
			w.Nodes[0].Status.Allocatable = corev1.ResourceList{"memory": resource.MustParse("2Gi")}
		}, kind: NodeResources, message: "no node with them has 1Gi memory left", remedy: "end other pods on those nodes, or request less memory"},
		"binding failure": {change: allocated(func(r *resourceapi.DeviceRequestAllocationResult, c *resourceapi.ResourceClaim) {
			r.BindingConditions, r.BindingFailureConditions = []string{"attached"}, []string{"broken"}
			c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{Type: "broken", Status: metav1.ConditionTrue}}}}
		}), kind: BindingCondition, message: "reports the failure broken of gpu-0"},
		"bound": {change: allocated(func(r *resourceapi.DeviceRequestAllocationResult, c *resourceapi.ResourceClaim) {
			r.BindingConditions = []string{"attached"}
			c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{Type: "attached", Status: metav1.ConditionTrue}}}}
		}), kind: NotTried},
		"deleted": {change: func(_ *corev1.Pod, w *Cluster) {
			w.Claims[0].DeletionTimestamp, w.Claims[0].Finalizers = &metav1.Time{}, []string{"example.com/keep"}
		}, kind: ClaimMissing, message: "ResourceClaim train is being deleted, used by no pod", remedy: "create the claim again when it is gone; the finalizers that hold it are example.com/keep"},
		"deleted, in use": {change: func(pod *corev1.Pod, w *Cluster) {
			refused(`0/1 nodes are available: resourceclaim "train" is being deleted.`)(pod, w)
			allocated(func(_ *resourceapi.DeviceRequestAllocationResult, c *resourceapi.ResourceClaim) {
				c.DeletionTimestamp, c.Status.ReservedFor = &metav1.Time{}, []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "train-1"}}
			})(pod, w)
		}, kind: ClaimMissing, message: "ResourceClaim train is being deleted, used by pod train-1", remedy: "end the pods that use it, and create the claim again when it is gone"},
		"deleted, of a template": {change: func(pod *corev1.Pod, w *Cluster) {
			pod.UID = "uid"
			allocated(func(_ *resourceapi.DeviceRequestAllocationResult, c *resourceapi.ResourceClaim) {
				c.DeletionTimestamp, c.OwnerReferences = &metav1.Time{}, []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
			})(pod, w)
		}, kind: ClaimMissing, message: "ResourceClaim train is being deleted, used by no pod", remedy: "create the pod again: it gets another claim", command: "kubectl "},
		"deleted, the pod runs": {change: func(pod *corev1.Pod, w *Cluster) {
			allocated(func(_ *resourceapi.DeviceRequestAllocationResult, c *resourceapi.ResourceClaim) {
				c.DeletionTimestamp = &metav1.Time{}
			})(pod, w)
			pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
		}},
		"no devices": {change: func(_ *corev1.Pod, w *Cluster) { w.View = tracker.Merge(class()) }, kind: NoDevices, message: "no driver publishes a device"},
		"other devices": {change: func(_ *corev1.Pod, w *Cluster) { w.View = tracker.Merge(class("false"), slice("n1", gpus(2)...)) },
			kind: NoDevices, message: "DeviceClass gpu selects none of the 2 devices of 1 driver", command: "kubectl edit deviceclass gpu"},
		"class fails": {change: func(_ *corev1.Pod, w *Cluster) {
			w.View = tracker.Merge(class(`device.attributes["gpu.example.com"].kind == "gpu"`), slice("n1", gpus(1)...))
		}, kind: SelectorError, message: "selector 0 of DeviceClass gpu fails on gpu-0 on n1", command: `kubectl patch deviceclass gpu --type=json -p '[{"op":"replace","path":"/spec/selectors/0/cel/expression","value":"\"kind\" in device.attributes`},
		"class compares a text with a number": {change: func(_ *corev1.Pod, w *Cluster) {
			w.View = tracker.Merge(class(`device.attributes["gpu.example.com"].model > 3`), slice("n1", gpus(1)...))
		}, kind: SelectorError, message: "selector 0 of DeviceClass gpu fails on gpu-0 on n1", command: "kubectl edit deviceclass gpu"},
		"no attribute": {change: func(_ *corev1.Pod, w *Cluster) {
			w.Claims[0].Spec.Devices.Requests[0].Exactly.Selectors = cel(`"kind" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].kind == "gpu"`)
		}, kind: SelectorFalse},
		"extended, another name": {change: func(pod *corev1.Pod, w *Cluster) {
			refused("0/1 nodes are available: 1 Insufficient example.com/gpu.")(pod, w)
			c := class()
			c.Spec.ExtendedResourceName = new("example.com/gpus")
			w.View = tracker.Merge(c, slice("n1", gpus(1)...))
			one := corev1.ResourceList{extended: resource.MustParse("1")}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		}, kind: ResourceUnknown, message: `did you mean "example.com/gpus"?`, remedy: "request example.com/gpus",
			command: `kubectl patch pod train-0 -n team-a -p '{"spec":{"containers":[{"name":"train","resources":{"limits":{"example.com/gpu":null,"example.com/gpus":"1"},"requests":{"example.com/gpu":null,"example.com/gpus":"1"}}}]}}'`},
		"driver gone": {change: func(pod *corev1.Pod, w *Cluster) {
			stuck("n1")(pod, w)
			w.View = tracker.Merge(class(), slice("n2", gpus(1)...))
		}, kind: DriverGone, message: "the pod is Terminating, 5m0s longer than its grace period: driver gpu.example.com, which has to unprepare claim train, is gone from node n1",
			remedy: "start a pod of driver gpu.example.com on node n1: the kubelet then unprepares the claim, and the pod ends; a deletion by force leaves the device prepared"},
		"driver there": {change: stuck("n1"), kind: Terminating, message: "5m0s longer than its grace period"},
		"driver gone, pod in its grace period": {change: func(pod *corev1.Pod, w *Cluster) {
			stuck("n1")(pod, w)
			w.View, w.Now = tracker.Merge(class(), slice("n2", gpus(1)...)), pod.DeletionTimestamp.Add(30*time.Second)
		}, kind: Terminating, remedy: "wait for the end of its grace period"},
		"driver gone, pod ended": {change: func(pod *corev1.Pod, w *Cluster) {
			stuck("n1")(pod, w)
			w.View, pod.Status.Phase = tracker.Merge(class(), slice("n2", gpus(1)...)), corev1.PodFailed
		}, kind: Failed},
		"driver gone, pod runs": {change: func(pod *corev1.Pod, w *Cluster) {
			stuck("n1")(pod, w)
			w.View, pod.DeletionTimestamp = tracker.Merge(class(), slice("n2", gpus(1)...)), nil
		}, kind: DeviceGone, message: "no longer publishes gpu-0 of pool n1"},
		"extended, of a device plugin": {change: func(pod *corev1.Pod, w *Cluster) {
			one := corev1.ResourceList{extended: resource.MustParse("1")}
			pod.Spec.Containers[0].Resources.Requests = one
			w.Nodes[0].Status.Allocatable = one
		}, kind: NotTried},
		"extended, of a device plugin and of a driver": {change: mixed(nil, "n2"), kind: TaintNotTolerated, message: "gpu-0 on n2 would fit, but the claim does not tolerate taint example.com/sick:NoSchedule",
			others: []Kind{NodeResources}},
		"extended, of a device plugin and of a driver that has a device left": {change: func(pod *corev1.Pod, w *Cluster) {
			mixed(nil, "n2")(pod, w)
			w.View, w.PartialPods = tracker.Merge(extendedClass(), slice("n2", gpus(1)...)), false
		}, kind: NotTried},
		"extended, of a device plugin, no driver": {change: func(pod *corev1.Pod, w *Cluster) {
			mixed(nil, "n2")(pod, w)
			w.View = tracker.Merge(extendedClass())
		}, kind: NodeResources, message: "no node with them has 1 example.com/gpu left"},
		"extended, of a device plugin, the pod cannot run elsewhere": {change: mixed(map[string]string{"of": "n1"}, "n2"),
			kind: NodeResources, message: "no node with them has 1 example.com/gpu left"},
		"extended, of a device plugin, and another of a driver on its node": {change: func(pod *corev1.Pod, w *Cluster) {
			mixed(nil, "n1")(pod, w)
			pod.Spec.Containers[0].Resources.Requests["deviceclass.resource.kubernetes.io/gpu"] = resource.MustParse("1")
		}, kind: TaintNotTolerated, message: "gpu-0 on n1 would fit, but the claim does not tolerate taint example.com/sick:NoSchedule"},
		"extended, of a device plugin and of a driver on the same node": {change: mixed(nil, "n1"), kind: NodeResources, message: "no node with them has 1 example.com/gpu left"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := waits(corev1.PodResourceClaim{ResourceClaimName: new("train")})
			pod.Spec.Containers = []corev1.Container{{Name: "train"}}
			w := Cluster{View: tracker.Merge(class(), slice("n1", gpus(1)...)), Nodes: []*corev1.Node{node("n1")}, Claims: []*resourceapi.ResourceClaim{claim("train", nil)}}
			tt.change(pod, &w)
			a, err := w.ExplainPod(t.Context(), pod)
			if err != nil {
				t.Fatal(err)
			}
			if tt.kind == "" {
				if a.Cause != nil || !a.Satisfied() {
					t.Errorf("there is no cause: %+v", a)
				}
				return
			}
			for i, kind := range tt.others {
				if len(a.OtherCauses) != len(tt.others) || a.OtherCauses[i].Kind != kind {
					t.Errorf("other causes: %+v", a.OtherCauses)
				}
			}
			if tt.kind == ClaimMissing && len(a.OtherCauses) != 0 {
				t.Errorf("it is the only cause: %+v", a.OtherCauses)
			}
			if c := a.Cause; c == nil || c.Kind != tt.kind || !strings.Contains(c.Message, tt.message) || tt.remedy != "" && c.Remedy != tt.remedy || !strings.HasPrefix(c.Command, tt.command) {
				t.Errorf("got %+v of %+v", c, a)
			}
		})
	}
}
