package evictor_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// generation is a slice of node-0 with gpu-0, with a taint or not, and gpu-1.
func generation(name string, number, count int64, gpu0, tainted bool) *resourceapi.ResourceSlice {
	slice := benchSlice(0)
	slice.Name = name
	slice.Spec.Pool.Generation, slice.Spec.Pool.ResourceSliceCount = number, count
	slice.Spec.Devices = slice.Spec.Devices[:2]
	if tainted {
		slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.Now())}}
	}
	if !gpu0 {
		slice.Spec.Devices = slice.Spec.Devices[1:]
	}
	return slice
}

// TestGenerationsBesideKubernetes publishes slices of several generations, one after the
// other, to both controllers: they evict the same pods. The one difference is an incomplete
// newer generation, which hides older taints in Kubernetes (16 in docs/eviction.md).
func TestGenerationsBesideKubernetes(t *testing.T) {
	old := func() *resourceapi.ResourceSlice { return generation("a", 1, 1, true, true) }
	for name, steps := range map[string]func() []*resourceapi.ResourceSlice{
		"only one": func() []*resourceapi.ResourceSlice { return []*resourceapi.ResourceSlice{old()} },
		"newest lacks the device": func() []*resourceapi.ResourceSlice {
			return []*resourceapi.ResourceSlice{generation("b", 2, 1, false, false), old()}
		},
		"newest has it without a taint": func() []*resourceapi.ResourceSlice {
			return []*resourceapi.ResourceSlice{generation("b", 2, 1, true, false), old()}
		},
		"newest taints it": func() []*resourceapi.ResourceSlice {
			return []*resourceapi.ResourceSlice{generation("b", 2, 1, true, true), generation("a", 1, 1, true, false)}
		},
		"the older one becomes the newest": func() []*resourceapi.ResourceSlice {
			return []*resourceapi.ResourceSlice{generation("b", 2, 1, true, false), old(), generation("a", 3, 1, true, true)}
		},
		"the tainted one becomes the older": func() []*resourceapi.ResourceSlice {
			return []*resourceapi.ResourceSlice{generation("b", 3, 1, false, false), generation("a", 4, 1, true, false), generation("a", 2, 1, true, true)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var theirs, ours []string
			synctest.Test(t, func(t *testing.T) { theirs = evicted(t, steps(), runInTree) })
			synctest.Test(t, func(t *testing.T) { ours = evicted(t, steps(), runOurs) })
			if !slices.Equal(theirs, ours) {
				t.Errorf("Kubernetes evicts %v, dra-steward %v", theirs, ours)
			}
		})
	}
}

// evicted runs a controller, publishes slices one after the other, and returns the deleted
// pods.
func evicted(t *testing.T, steps []*resourceapi.ResourceSlice, run func(*testing.T, context.Context, kubernetes.Interface, informers.SharedInformerFactory) *sync.WaitGroup) []string {
	var objects []runtime.Object
	c := &cluster{}
	for i := range 2 {
		pod, claim := c.pod(i)
		pod.Status.Phase = corev1.PodRunning
		objects = append(objects, pod, claim)
	}
	client := fake.NewClientset(objects...)
	deleted := map[string]bool{}
	var mutex sync.Mutex
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mutex.Lock()
		defer mutex.Unlock()
		deleted[action.(clienttesting.DeleteAction).GetName()] = true
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	running := run(t, ctx, client, factory)
	synctest.Wait()
	published := map[string]bool{}
	for i, slice := range steps {
		slice.ResourceVersion = fmt.Sprint(i + 1)
		var err error
		if published[slice.Name] {
			_, err = client.ResourceV1().ResourceSlices().Update(ctx, slice, metav1.UpdateOptions{})
		} else {
			_, err = client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		published[slice.Name] = true
		pause(time.Minute)
		synctest.Wait()
	}
	cancel()
	running.Wait()
	factory.Shutdown()
	return slices.Sorted(maps.Keys(deleted))
}

func runInTree(t *testing.T, ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) *sync.WaitGroup {
	resource := factory.Resource().V1()
	controller := devicetainteviction.New(client, factory.Core().V1().Pods(), resource.ResourceClaims(),
		resource.ResourceSlices(), resource.DeviceTaintRules(), resource.DeviceClasses(), "device-taint-eviction-controller")
	factory.Start(ctx.Done())
	running := &sync.WaitGroup{}
	running.Go(func() {
		if err := controller.Run(ctx, 1); err != nil {
			t.Error(err)
		}
	})
	return running
}

func runOurs(t *testing.T, ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) *sync.WaitGroup {
	resource := factory.Resource().V1()
	index := &usage.Index{}
	synced, _, err := index.Listen(usage.Informers{Claims: resource.ResourceClaims().Informer(), Pods: factory.Core().V1().Pods().Informer()})
	if err != nil {
		t.Fatal(err)
	}
	rules := resource.DeviceTaintRules().Informer()
	devices := tracker.New(tracker.Options{Sources: tracker.Sources{Slices: resource.ResourceSlices().Informer(), Rules: rules}})
	controller, err := evictor.New(evictor.Options{Client: client, Tracker: devices, Rules: rules, Usage: index, UsageSynced: synced, Mode: evictor.ModeFull})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	running := &sync.WaitGroup{}
	for _, run := range []func(context.Context) error{devices.Run, controller.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return running
}
