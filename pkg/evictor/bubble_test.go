package evictor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A bubble is a controller on a fake API server, in a bubble of time.
type bubble struct {
	*testing.T
	*fake.Clientset
	controller *Controller
	registry   *prometheus.Registry
	events     *record.FakeRecorder
	begin      time.Time
	window     time.Duration
	stop       func()

	mutex   sync.Mutex
	deleted map[string]time.Duration
	order   []string
}

// inBubble runs a test with a controller that has seen the objects.
func inBubble(t *testing.T, options Options, objects []runtime.Object, test func(*bubble)) {
	t.Helper()
	inBatches(t, 0, options, objects, test)
}

// inBatches is inBubble with a tracker that takes the events of a window together.
func inBatches(t *testing.T, window time.Duration, options Options, objects []runtime.Object, test func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, window: window, Clientset: fake.NewClientset(objects...), begin: time.Now(), deleted: map[string]time.Duration{}}
		b.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			deletion, _ := action.(clienttesting.DeleteActionImpl)
			if deletion.DeleteOptions.Preconditions == nil || deletion.DeleteOptions.Preconditions.UID == nil {
				t.Errorf("pod %s is deleted without its UID", deletion.Name)
			}
			b.mutex.Lock()
			defer b.mutex.Unlock()
			name := deletion.Namespace + "/" + deletion.Name
			if _, twice := b.deleted[name]; twice {
				t.Errorf("pod %s is deleted twice", name)
			}
			b.deleted[name] = time.Since(b.begin)
			b.order = append(b.order, name)
			return false, nil, nil
		})
		b.start(options)
		synctest.Wait()
		test(b)
		b.stop()
	})
}

func (b *bubble) start(options Options) {
	b.Helper()
	factory := informers.NewSharedInformerFactory(b.Clientset, 0)
	resource := factory.Resource().V1()
	options.Rules, options.Usage = resource.DeviceTaintRules().Informer(), &usage.Index{}
	synced, unlisten, err := options.Usage.Listen(usage.Informers{Claims: resource.ResourceClaims().Informer(), Pods: factory.Core().V1().Pods().Informer()})
	if err != nil {
		b.Fatal(err)
	}
	options.UsageSynced = synced
	options.Tracker = tracker.New(tracker.Options{Window: b.window, Sources: tracker.Sources{Slices: resource.ResourceSlices().Informer(), Rules: options.Rules}})
	switch client := options.Client.(type) {
	case slowStatus:
		options.Client = slowStatus{Interface: b.Clientset}
	case slowPods:
		client.Interface = b.Clientset
		options.Client = client
	default:
		options.Client = b.Clientset
	}
	b.registry = prometheus.NewRegistry()
	b.events = record.NewFakeRecorder(10000)
	options.Recorder = b.events
	if options.Metrics, err = NewMetrics(b.registry); err != nil {
		b.Fatal(err)
	}
	if b.controller, err = New(options); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	factory.Start(ctx.Done())
	run := func(what func(context.Context) error) {
		running.Go(func() {
			if err := what(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	run(options.Tracker.Run)
	run(b.controller.Run)
	b.stop = func() {
		cancel()
		running.Wait()
		if err := unlisten(); err != nil {
			b.Error(err)
		}
		factory.Shutdown()
	}
}

// pass lets time pass, and waits for the result.
func (b *bubble) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// expect compares the pods deleted so far, each with the time since the start.
func (b *bubble) expect(want map[string]time.Duration) {
	b.Helper()
	synctest.Wait()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if got := fmt.Sprint(b.deleted); got != fmt.Sprint(want) {
		b.Errorf("after %s deleted: %s, want: %s", time.Since(b.begin), got, fmt.Sprint(want))
	}
}

func (b *bubble) do(_ any, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bubble) createRule(rule *resourceapi.DeviceTaintRule) {
	b.Helper()
	b.do(b.ResourceV1().DeviceTaintRules().Create(b.Context(), rule, metav1.CreateOptions{}))
}

func (b *bubble) updateRule(name string, change func(*resourceapi.DeviceTaintRule)) {
	b.Helper()
	rule, err := b.ResourceV1().DeviceTaintRules().Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	rule.Generation++
	change(rule)
	b.do(b.ResourceV1().DeviceTaintRules().Update(b.Context(), rule, metav1.UpdateOptions{}))
}

func (b *bubble) updateSlice(slice *resourceapi.ResourceSlice) {
	b.Helper()
	b.do(b.ResourceV1().ResourceSlices().Update(b.Context(), slice, metav1.UpdateOptions{}))
}

func (b *bubble) updatePod(pod *corev1.Pod) {
	b.Helper()
	b.do(b.CoreV1().Pods(pod.Namespace).Update(b.Context(), pod, metav1.UpdateOptions{}))
}

func (b *bubble) updateClaim(claim *resourceapi.ResourceClaim) {
	b.Helper()
	b.do(b.ResourceV1().ResourceClaims(claim.Namespace).Update(b.Context(), claim, metav1.UpdateOptions{}))
}

// calls counts what the controller has asked of the API server, informers aside.
func (b *bubble) calls(verb, resource string) (n int) {
	for _, action := range b.Actions() {
		if action.Matches(verb, resource) || action.GetSubresource() != "" && action.GetVerb() == verb && action.GetResource().Resource+"/"+action.GetSubresource() == resource {
			n++
		}
	}
	return n
}

// bubbleStart is the time in a bubble that has just begun.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

func seconds(n int) *metav1.Time {
	return ptr.To(metav1.NewTime(bubbleStart.Add(time.Duration(n) * time.Second)))
}

// sliceOf publishes gpu-0 to gpu-2 of node with taints for gpu-0.
func sliceOf(generation int64, taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", generation), UID: types.UID(fmt.Sprint("slice-", generation))}}
	slice.Spec.Driver, slice.Spec.NodeName = "gpu.example.com", ptr.To("node")
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "node", Generation: generation, ResourceSliceCount: 1}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Taints: taints}, {Name: "gpu-1"}, {Name: "gpu-2"}}
	return slice
}

func taint(key string, at *metav1.Time) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: "example.com/" + key, Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: at}
}

// ruleOn selects one device; an empty name selects all of the driver.
func ruleOn(name, device string, at *metav1.Time) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com")}
	if device != "" {
		rule.Spec.DeviceSelector.Pool, rule.Spec.DeviceSelector.Device = ptr.To("node"), ptr.To(device)
	}
	rule.Spec.Taint = taint("broken", at)
	return rule
}

// podOn is a running pod with a claim of the same name for a device.
func podOn(namespace, name, device string, tolerations ...resourceapi.DeviceToleration) (*corev1.Pod, *resourceapi.ResourceClaim) {
	w := one(nil, tolerations...)
	pod, claim := w.pod, w.claims["ns/claim"]
	pod.Namespace, pod.Name, pod.UID = namespace, name, types.UID(namespace+"-"+name)
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.ResourceClaims[0].ResourceClaimName = ptr.To(name)
	claim.Namespace, claim.Name, claim.UID = namespace, name, types.UID("claim-"+namespace+"-"+name)
	claim.Status.Allocation.Devices.Results[0].Device = device
	claim.Status.ReservedFor[0].Name, claim.Status.ReservedFor[0].UID = name, pod.UID
	return pod, claim
}

// extended makes the pod hold its claim for extended resources.
func extended(pod *corev1.Pod, claim *resourceapi.ResourceClaim) (*corev1.Pod, *resourceapi.ResourceClaim) {
	pod.Spec.ResourceClaims = nil
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	return pod, claim
}
