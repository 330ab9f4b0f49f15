package materialize_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// merging is a merger of these patches.
func merging(pools *slicemerge.PoolOriginals, patches ...*v1alpha1.ResourceSlicePatch) *slicemerge.Merger {
	return slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
		All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true },
		Class: func(string) *resourceapi.DeviceClass { return nil },
	}, pools, nil, logr.Discard())
}

// own gives the devices of a slice a rack of the driver's.
func own(s *resourceapi.ResourceSlice, rack string) *resourceapi.ResourceSlice {
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].Attributes["dc.example.com/rack"] = resourceapi.DeviceAttribute{StringValue: ptr.To(rack)}
	}
	return s
}

// names are those of the ConfigMaps that there are.
func names(t *testing.T, client *fake.Clientset) (all []string) {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("ours").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		all = append(all, c.Name)
	}
	return all
}

// TestRecorder: what a driver said outlives slice and processes, and is written down no
// longer than that is of use; of one pool in 24 hours without slices nothing is left.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		stored := merging(nil, rackPatch("p", "r1", "")).Merge(context.Background(), own(slice("s", "a", 200, 1), "own"), nil, time.Now(), accept).Slice
		v := viewOf(stored)
		start := func() (pools *slicemerge.PoolOriginals, stop func()) {
			pools = &slicemerge.PoolOriginals{}
			ctx, cancel := context.WithCancel(t.Context())
			for s := range v.Snapshot().StoredSlices() {
				pools.Learn(s, time.Now())
			}
			r := materialize.Recorder{Client: client.CoreV1().ConfigMaps("ours"), Prefix: "records", PoolOriginals: pools, View: v}
			go func() { _ = r.Run(ctx) }()
			go pools.Run(ctx, v)
			<-time.After(30 * time.Second)
			synctest.Wait()
			return pools, func() { cancel(); synctest.Wait() }
		}
		_, stop := start()
		if got := names(t, client); len(got) != 2 {
			t.Fatalf("ConfigMaps %q, want one for each 128 devices", got)
		}
		stop()

		// the slice is deleted, and made again of what was taken over, while no component
		// runs
		again := own(slice("t", "a", 200, 1), "r1")
		v.snapshot.Store(tracker.Merge(again))
		webhook := &slicemerge.PoolOriginals{}
		if err := webhook.Load(t.Context(), client.CoreV1().ConfigMaps("ours"), "records", v); err != nil {
			t.Fatal(err)
		}
		if got := merging(webhook).Merge(context.Background(), again, again, time.Now(), accept).Slice; rack(got) != "own" {
			t.Errorf("the webhook takes %q for the driver's word", rack(got))
		}
		pools, stop := start()
		if got := merging(pools).Merge(context.Background(), again, again, time.Now(), accept).Slice; rack(got) != "own" {
			t.Errorf("the controller takes %q for the driver's word", rack(got))
		}
		if got := names(t, client); len(got) != 2 {
			t.Errorf("ConfigMaps %q after a restart", got)
		}

		// a driver that says something else is believed
		said := own(slice("t", "a", 200, 1), "another")
		v.snapshot.Store(tracker.Merge(said))
		pools.Learn(said, time.Now())
		<-time.After(30 * time.Second)
		if got := names(t, client); len(got) != 0 {
			t.Errorf("ConfigMaps %q of nothing", got)
		}
		stop()

		// a pool that is gone
		v.snapshot.Store(tracker.Merge(stored))
		_, stop = start()
		v.snapshot.Store(tracker.Merge())
		<-time.After(23 * time.Hour)
		if got := names(t, client); len(got) != 2 {
			t.Errorf("ConfigMaps %q after 23 hours", got)
		}
		<-time.After(2 * time.Hour)
		if got := names(t, client); len(got) != 0 {
			t.Errorf("ConfigMaps %q after 25 hours", got)
		}
		stop()
	})
}

// TestOtherNode: what is known of a pool from slices of one node does not count for slices of another
// node that name the same pool: for the webhook, for the controller, and after a restart.
func TestOtherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		publish := func(node, value string) *resourceapi.ResourceSlice {
			s := own(slice(node, "a", 1, 1), value)
			s.Spec.AllNodes, s.Spec.NodeName = nil, &node
			return s
		}
		patched := merging(nil, rackPatch("p", "r1", "")).Merge(context.Background(), publish("node-a", "own"), nil, time.Now(), accept).Slice
		v := viewOf(patched, publish("node-b", "r1"))
		pools, client := &slicemerge.PoolOriginals{}, fake.NewClientset()
		for s := range v.Snapshot().StoredSlices() {
			pools.Learn(s, time.Now())
		}
		check := func(when string, pools *slicemerge.PoolOriginals) {
			for node, want := range map[string]string{"node-a": "own", "node-b": "r1"} {
				if got := rack(merging(pools).Merge(context.Background(), publish(node, "r1"), nil, time.Now(), accept).Slice); got != want {
					t.Errorf("%s: %s publishes %q, want %q", when, node, got, want)
				}
			}
		}
		check("first", pools)

		ctx, cancel := context.WithCancel(t.Context())
		resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: v, Mode: slicemerge.Materialize, PoolOriginals: pools,
			Touch: func(_ context.Context, touch materialize.Touch) error {
				if touch.Slice == "node-b" {
					t.Errorf("the slice of the other node is written: %+v", touch)
				}
				return nil
			}})
		recorder := materialize.Recorder{Client: client.CoreV1().ConfigMaps("ours"), Prefix: "records", PoolOriginals: pools, View: v}
		go func() { _ = resyncer.Run(ctx) }()
		go func() { _ = recorder.Run(ctx) }()
		<-time.After(30 * time.Second)
		cancel()
		synctest.Wait()
		restarted := &slicemerge.PoolOriginals{}
		if err := restarted.Load(t.Context(), client.CoreV1().ConfigMaps("ours"), "records", v); err != nil {
			t.Fatal(err)
		}
		check("after a restart", restarted)
	})
}

// TestRecorderForgets: no record is left of a device that its driver has dropped from a complete
// pool, nor of one whose driver now publishes what a patch had written, together with another value,
// and whose slice was created without the webhook.
func TestRecorderForgets(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *resourceapi.ResourceSlice)
		want   int
	}{
		"nothing changes":  {nil, 1},
		"a dropped device": {func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[1:] }, 0},
		"a pool that lacks another slice": {func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices, s.Spec.Pool.ResourceSliceCount = s.Spec.Devices[1:], 2
		}, 1},
		"the value of a patch": {func(s *resourceapi.ResourceSlice) {
			own(s, "r1")
			s.Spec.Devices[0].Attributes["attribute_0"] = resourceapi.DeviceAttribute{StringValue: ptr.To("another")}
		}, 0},
		"what was taken over": {func(s *resourceapi.ResourceSlice) { own(s, "r1") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { forgets(t, test.change, test.want) })
		})
	}
}

// forgets checks that a number of ConfigMaps is left after a change of the slice; nil is none.
func forgets(t *testing.T, change func(*resourceapi.ResourceSlice), want int) {
	client, pools := fake.NewClientset(), &slicemerge.PoolOriginals{}
	first := slice("s", "a", 2, 1)
	patch := rackPatch("p", "r1", "")
	patch.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Device: ptr.To(first.Spec.Devices[0].Name)}
	stored := merging(nil, patch).Merge(context.Background(), own(first, "own"), nil, time.Now(), accept).Slice
	v := viewOf(stored)
	pools.Learn(stored, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	r := materialize.Recorder{Client: client.CoreV1().ConfigMaps("ours"), Prefix: "records", PoolOriginals: pools, View: v}
	go func() { _ = r.Run(ctx) }()
	go pools.Run(ctx, v)
	<-time.After(30 * time.Second)
	if got := names(t, client); len(got) != 1 {
		t.Errorf("ConfigMaps %q before", got)
	}
	if change != nil {
		stored = own(slice("s", "a", 2, 1), "own")
		change(stored)
		v.snapshot.Store(tracker.Merge(stored))
		pools.Learn(stored, time.Now())
	}
	<-time.After(2 * time.Minute)
	if got := names(t, client); len(got) != want {
		t.Errorf("ConfigMaps %q, want %d", got, want)
	}
	cancel()
	synctest.Wait()
}

// A logged is what was logged, for several goroutines.
type logged struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (l *logged) add(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.text.WriteString(text)
}

func (l *logged) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// TestRecorderFaults: nothing is written over before it has been read, what cannot be
// written is tried again, and what has no room is said and counted.
func TestRecorderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mutex sync.Mutex // guards what follows
		locked := func(do func()) {
			mutex.Lock()
			defer mutex.Unlock()
			do()
		}
		broken := map[string]bool{"get": true}
		calls := map[string]int{}
		client.PrependReactor("*", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mutex.Lock()
			defer mutex.Unlock()
			calls[action.GetVerb()]++
			if broken[action.GetVerb()] {
				return true, nil, errors.New("no connection")
			}
			return false, nil, nil
		})
		random := rand.New(rand.NewPCG(1, 2))
		pools := &slicemerge.PoolOriginals{}
		// none of it can be compressed, and all of it is one part
		originals := record.Originals{}
		for range 120 {
			entries := map[record.Key]record.Entry{}
			for j := range 200 {
				value := make([]byte, 64)
				for at := range value {
					value[at] = '!' + byte(random.IntN('~'-'!'+1))
				}
				entries[record.Key{Name: resourceapi.QualifiedName(string(rune('a'+j%26)) + string(value[:8]))}] = record.Entry{
					Published: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To(string(value))}}, Patch: "p"}
			}
			originals[string(rune('a'+len(originals)))] = record.Device{Entries: entries}
		}
		pools.Seed([]record.Record{{Driver: "d", Pool: "large", Originals: originals}}, viewOf().Snapshot().StoredSlices(), time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		var log logged
		r := materialize.Recorder{Client: client.CoreV1().ConfigMaps("ours"), Prefix: "records", PoolOriginals: pools, View: viewOf(),
			Logger: funcr.New(func(_, args string) { log.add(args) }, funcr.Options{})}
		go func() { _ = r.Run(ctx) }()
		<-time.After(time.Minute)
		synctest.Wait()
		locked(func() {
			if calls["patch"]+calls["create"]+calls["delete"] > 0 || calls["get"] > 13 || !strings.Contains(log.String(), "no connection") {
				t.Errorf("before anything is read: %v, log %s", calls, log.String())
			}
			broken["get"] = false
		})
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := names(t, client); len(got) > 0 || !strings.Contains(log.String(), "do not fit") {
			t.Errorf("ConfigMaps %q, log %s", got, log.String())
		}
		locked(func() { broken["patch"] = true })
		pools.Learn(merging(nil, rackPatch("p", "r1", "")).Merge(context.Background(), slice("s", "a", 1, 1), nil, time.Now(), accept).Slice, time.Now())
		<-time.After(time.Minute)
		synctest.Wait()
		locked(func() {
			if calls["patch"] < 5 || calls["patch"] > 15 {
				t.Errorf("%d attempts in a minute", calls["patch"])
			}
			broken["patch"] = false
		})
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := names(t, client); len(got) != 1 {
			t.Errorf("ConfigMaps %q", got)
		}
		cancel()
		synctest.Wait()
	})
}

// TestRecordNames: the chart's rights name the ConfigMaps that there are.
func TestRecordNames(t *testing.T) {
	chart, err := os.ReadFile("../../../charts/dra-steward/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("range $number := until %d -", slicemerge.RecordConfigMaps); !strings.Contains(string(chart), want) {
		t.Errorf("the chart does not say %q", want)
	}
}

// TestLoadFaults: an unreadable record does not prevent reading the others, and is
// reported.
func TestLoadFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, _, err := record.EncodeRecords(record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "dc.example.com/rack"}: {Patch: "p",
			Written: record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To("r1")}}}}}}.Records("gpu.example.com", "a", ""), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "records-0"}, BinaryData: map[string][]byte{"records.json.gz": []byte("else")}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "records-1"}, BinaryData: map[string][]byte{"records.json.gz": data}})
		client.PrependReactor("get", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.(clienttesting.GetAction).GetName() == "records-2" {
				return true, nil, errors.New("no connection")
			}
			return false, nil, nil
		})
		pools := &slicemerge.PoolOriginals{}
		before := time.Now()
		err = pools.Load(t.Context(), client.CoreV1().ConfigMaps("ours"), "records", viewOf())
		if err == nil || !strings.Contains(err.Error(), "records-0") || !strings.Contains(err.Error(), "records-2") || time.Since(before) > time.Minute {
			t.Errorf("%v after %s", err, time.Since(before))
		}
		if got := merging(pools).Merge(context.Background(), own(slice("s", "a", 1, 1), "r1"), nil, time.Now(), accept).Slice; rack(got) != "" {
			t.Errorf("the driver is said to have %q", rack(got))
		}
	})
}

// TestYields: while a scheduler applies patches the webhook merges none, and takes out what
// slices hold; the last answer counts while it cannot ask.
func TestYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := merging(nil, rackPatch("p", "r1", ""))
		var mutex sync.Mutex // guards said and broken
		said, broken := "", error(nil)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan struct{}, 100)
		go m.Follow(ctx, func(context.Context, time.Time) (string, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return said, broken
		}, func() { first <- struct{}{} })
		<-first
		driver := own(slice("s", "a", 1, 1), "own")
		stored := m.Merge(context.Background(), driver, nil, time.Now(), accept).Slice
		if rack(stored) != "r1" {
			t.Fatalf("stored: %q", rack(stored))
		}
		for _, step := range []struct {
			said   string
			broken error
			want   string
		}{{"a scheduler", nil, "own"}, {"", errors.New("no connection"), "own"}, {"", nil, "r1"}} {
			mutex.Lock()
			said, broken = step.said, step.broken
			mutex.Unlock()
			<-time.After(10 * time.Second)
			synctest.Wait()
			if got := m.Merge(context.Background(), driver, stored, time.Now(), accept).Slice; rack(got) != step.want {
				t.Errorf("%+v: %q", step, rack(got))
			}
		}
		cancel()
		synctest.Wait()
	})
}
