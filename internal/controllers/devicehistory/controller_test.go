package devicehistory_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/devicehistory"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const driver = "gpu.example.com"

// A world is an API server with a controller.
type world struct {
	*testing.T
	client *fake.Clientset
	writes atomic.Int64
	stop   func()
}

// newWorld runs a controller. The API server refuses writes of older versions, as a real one does.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{T: t, client: fake.NewClientset(objects...)}
	versions := 0
	write := func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.writes.Add(1)
		object, all := action.(clienttesting.CreateAction).GetObject().(*corev1.ConfigMap), w.client.Tracker()
		versions++
		if action.GetVerb() == "create" {
			object.ResourceVersion = strconv.Itoa(versions)
			return true, object, all.Create(action.GetResource(), object, action.GetNamespace())
		}
		stored, err := all.Get(action.GetResource(), action.GetNamespace(), object.Name)
		if err != nil {
			return true, nil, err
		}
		if stored.(*corev1.ConfigMap).ResourceVersion != object.ResourceVersion {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), object.Name, nil)
		}
		object.ResourceVersion = strconv.Itoa(versions)
		return true, object, all.Update(action.GetResource(), object, action.GetNamespace())
	}
	w.client.PrependReactor("update", "configmaps", write)
	w.client.PrependReactor("create", "configmaps", write)
	w.run()
	return w
}

// run runs a controller until stop.
func (w *world) run() {
	w.Helper()
	factory := informers.NewSharedInformerFactory(w.client, 0)
	view := tracker.New(tracker.Options{Sources: tracker.Sources{Slices: factory.Resource().V1().ResourceSlices().Informer()}})
	controller, err := devicehistory.New(devicehistory.Options{ConfigMaps: w.client.CoreV1().ConfigMaps("dra-steward"), Prefix: "a-history", Tracker: view,
		Claims: factory.Resource().V1().ResourceClaims().Informer(), Pods: factory.Core().V1().Pods().Informer()})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 2)
	factory.StartWithContext(ctx)
	go func() { ended <- view.Run(ctx) }()
	go func() { ended <- controller.Run(ctx) }()
	w.stop = func() {
		cancel()
		for range 2 {
			w.do(nil, <-ended)
		}
		factory.Shutdown()
	}
	wait(15 * time.Second)
}

// wait lets time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) do(_ any, err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// publish publishes devices of a pool; those with taints are tainted.
func (w *world) publish(pool string, devices, tainted int) {
	w.Helper()
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pool}}
	slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Pool = driver, &pool, resourceapi.ResourcePool{Name: pool, ResourceSliceCount: 1}
	for i := range devices {
		d := resourceapi.Device{Name: fmt.Sprint("gpu-", i)}
		if i < tainted {
			d.Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	_, err := w.client.ResourceV1().ResourceSlices().Update(w.Context(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.client.ResourceV1().ResourceSlices().Create(w.Context(), slice, metav1.CreateOptions{})
	}
	w.do(nil, err)
}

// hold gives a device to a claim of a pod.
func (w *world) hold(name, pool, device string) {
	w.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(name)}}
	w.do(w.client.ResourceV1().ResourceClaims("team-a").Create(w.Context(), claim, metav1.CreateOptions{}))
	synctest.Wait()
	claim = claim.DeepCopy()
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: pool, Device: device}}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod-" + name, UID: "1"}}
	w.do(w.client.ResourceV1().ResourceClaims("team-a").Update(w.Context(), claim, metav1.UpdateOptions{}))
	synctest.Wait()
}

func (w *world) release(name string) {
	w.Helper()
	w.do(nil, w.client.ResourceV1().ResourceClaims("team-a").Delete(w.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}

// lines are what the stored history of a device says.
func (w *world) lines(pool, device string) (all []string) {
	w.Helper()
	store, found, err := history.Read(w.Context(), w.client.CoreV1().ConfigMaps("dra-steward"), "a-history", time.Now())
	if err != nil || found == 0 {
		w.Fatal(found, err)
	}
	r := store.Of(v1alpha1.DeviceName{Driver: driver, Pool: pool, Device: device})
	if r == nil {
		return nil
	}
	for _, e := range r.Timeline(time.Time{}) {
		all = append(all, e.What)
	}
	return all
}

func (w *world) expect(pool string, want ...string) {
	w.Helper()
	if got := w.lines(pool, "gpu-0"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBefore: who had a device before its first taint is recorded with that, and what ends while no controller
// runs is found by the next one.
func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.publish("node-1", 2, 0)
		w.hold("train", "node-1", "gpu-0")
		w.do(w.client.CoreV1().Pods("team-a").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "pod-web",
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}}}, metav1.CreateOptions{}))
		wait(time.Minute)
		w.release("train")
		w.hold("web", "node-1", "gpu-0")
		wait(time.Minute)
		w.expect("node-1")
		w.publish("node-1", 2, 1)
		wait(20 * time.Second)
		before := []string{"held by team-a/train (pod pod-train)", "released by team-a/train (pod pod-train)", "held by team-a/web (pod pod-web)", "taint example.com/xid=79:NoSchedule added"}
		w.expect("node-1", before...)
		w.stop()
		w.release("web")
		w.publish("node-1", 2, 0)
		wait(time.Minute)
		w.run()
		wait(20 * time.Second)
		w.expect("node-1", append(before, "taint example.com/xid=79:NoSchedule removed", "released by team-a/web (pod pod-web)")...)
		w.stop()
	})
}

// TestAway: the taints of a device end when no slice has it any more.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.publish("node-1", 1, 1)
		wait(20 * time.Second)
		w.do(nil, w.client.ResourceV1().ResourceSlices().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
		wait(20 * time.Second)
		w.expect("node-1", "taint example.com/xid=79:NoSchedule added", "taint example.com/xid=79:NoSchedule ended")
		w.stop()
	})
}

// TestRate: with all devices tainted again and again, and claims that come and go each second, there are at most
// six writes a minute, and none when nothing changes.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 60 {
			for pool := range 20 {
				w.publish(fmt.Sprint("node-", pool), 8, i%2*8)
			}
			name := fmt.Sprint("claim-", i)
			w.hold(name, "node-1", "gpu-0")
			wait(time.Second)
			w.release(name)
			wait(time.Second)
		}
		wait(3 * time.Minute)
		most := int64(1 + 5*6)
		if n := w.writes.Load(); n > most || n < 10 {
			t.Errorf("%d writes", n)
		}
		before := w.writes.Load()
		wait(time.Hour)
		if n := w.writes.Load() - before; n > 0 {
			t.Errorf("%d writes of nothing", n)
		}
		if lines := w.lines("node-1", "gpu-0"); !strings.Contains(strings.Join(lines, "\n"), "NoSchedule added (30 times)") {
			t.Error(lines)
		}
		w.stop()
	})
}

// TestOthers: what another leader has written is merged, what a user has damaged or deleted is written again.
func TestOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.publish("node-1", 8, 1)
		wait(20 * time.Second)
		other := v1alpha1.DeviceName{Driver: driver, Pool: "node-1", Device: "gpu-7"}
		shard := history.ShardOf(other)
		var theirs history.Store
		theirs.Observe(history.Observation{Device: other, Entries: []history.Entry{{Kind: history.Drain, Name: "theirs", Begin: time.Now()}}}, time.Now())
		data, err := theirs.Encode(shard)
		w.do(nil, err)
		maps := w.client.CoreV1().ConfigMaps("dra-steward")
		replace := func(data []byte) {
			t.Helper()
			object, err := maps.Get(t.Context(), history.ConfigMapName("a-history", shard), metav1.GetOptions{})
			w.do(nil, err)
			object = object.DeepCopy()
			object.BinaryData = map[string][]byte{"history.json.gz": data}
			w.do(maps.Update(t.Context(), object, metav1.UpdateOptions{}))
		}
		replace(data)
		w.publish("node-1", 8, 0)
		wait(40 * time.Second)
		w.expect("node-1", "taint example.com/xid=79:NoSchedule added", "taint example.com/xid=79:NoSchedule removed")
		// No drain is known here, so that theirs has not ended.
		if lines := w.lines("node-1", "gpu-7"); len(lines) != 1 || lines[0] != "drain theirs created" {
			t.Error(lines)
		}
		for range 2 {
			replace([]byte("else"))
			wait(12 * time.Minute)
			w.expect("node-1", "taint example.com/xid=79:NoSchedule added", "taint example.com/xid=79:NoSchedule removed")
		}
		// A change of the device comes before the next look.
		replace([]byte("else"))
		w.publish("node-1", 8, 1)
		wait(30 * time.Second)
		w.expect("node-1", "taint example.com/xid=79:NoSchedule added", "taint example.com/xid=79:NoSchedule removed", "taint example.com/xid=79:NoSchedule added")
		w.do(nil, maps.Delete(t.Context(), history.ConfigMapName("a-history", shard), metav1.DeleteOptions{}))
		wait(12 * time.Minute)
		w.expect("node-1", "taint example.com/xid=79:NoSchedule added", "taint example.com/xid=79:NoSchedule removed", "taint example.com/xid=79:NoSchedule added")
		w.stop()
	})
}

// TestUnreadable: while the stored history cannot be read, nothing is written.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, client: fake.NewClientset()}
		var forbidden atomic.Bool
		forbidden.Store(true)
		w.client.PrependReactor("*", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() != "get" {
				w.writes.Add(1)
			}
			return forbidden.Load(), nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "a", nil)
		})
		w.run()
		w.publish("node-1", 1, 1)
		wait(time.Minute)
		if n := w.writes.Load(); n > 0 {
			t.Errorf("%d writes", n)
		}
		forbidden.Store(false)
		wait(time.Minute)
		w.expect("node-1", "taint example.com/xid=79:NoSchedule added")
		w.stop()
	})
}
