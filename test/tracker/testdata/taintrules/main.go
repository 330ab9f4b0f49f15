// Command taintrules runs the tracker of kube-scheduler as kube-scheduler does: on the
// informers of client-go, whose goroutines call it. A ResourceSlice is created and then
// changes. The command ends with 0 once the tracker has passed both on.
//
//	taintrules [-rule] [-gate]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

func main() {
	rule := flag.Bool("rule", false, "a DeviceTaintRule for the driver of the slice exists")
	gate := flag.Bool("gate", false, "the feature gate DRADeviceTaintRules is on")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	taints, err := run(ctx, *rule, *gate)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("taints:", taints)
}

// run returns how many taints the device of the changed slice has.
func run(ctx context.Context, rule, gate bool) (int, error) {
	client := fake.NewClientset()
	if rule {
		if err := createRule(ctx, client); err != nil {
			return 0, err
		}
	}
	watched := watchesSlices(client)
	factory := informers.NewSharedInformerFactory(client, 0)
	options := tracker.Options{EnableDeviceTaintRules: gate, KubeClient: client, SliceInformer: factory.Resource().V1().ResourceSlices()}
	if gate {
		options.TaintInformer = taintRules(factory)
		options.ClassInformer = factory.Resource().V1().DeviceClasses()
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return 0, err
	}
	added, changed := make(chan int, 1), make(chan int, 1)
	if _, err := slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { added <- taints(object) },
		UpdateFunc: func(_, object any) { changed <- taints(object) },
	}); err != nil {
		return 0, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	select {
	case <-watched:
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the watch of slices: %w", ctx.Err())
	}
	return change(ctx, client, added, changed)
}

// watchesSlices closes a channel once slices are watched. An informer counts as synced before: the fake
// client passes on no object that is created between the list and the watch.
func watchesSlices(client *fake.Clientset) <-chan struct{} {
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	client.PrependWatchReactor("resourceslices", func(action testing.Action) (bool, watch.Interface, error) {
		defer once()
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return true, w, err
	})
	return begun
}

// change creates a slice and changes it.
func change(ctx context.Context, client *fake.Clientset, added, changed <-chan int) (int, error) {
	slice := slice()
	if _, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if _, err := wait(ctx, added); err != nil {
		return 0, err
	}
	slice = slice.DeepCopy()
	slice.Spec.Pool.Generation++
	if _, err := client.ResourceV1().ResourceSlices().Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	return wait(ctx, changed)
}

func wait(ctx context.Context, events <-chan int) (int, error) {
	select {
	case taints := <-events:
		return taints, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the tracker: %w", ctx.Err())
	}
}

func taints(object any) int { return len(object.(*resourceapi.ResourceSlice).Spec.Devices[0].Taints) }

func slice() *resourceapi.ResourceSlice {
	node := "node-a"
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-a"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node,
			Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0"}},
		},
	}
}
