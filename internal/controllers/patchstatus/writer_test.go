package patchstatus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// world is an API server and a tracker of it that shows a write after a while.
type world struct {
	mutex    sync.Mutex
	objects  map[string]any
	snapshot *tracker.Snapshot
	events   map[string]*corev1.Event
	writes   []string
	lag      time.Duration
	fail     error
	noEvents error
}

func newWorld(objects ...any) *world {
	w := &world{objects: map[string]any{}, events: map[string]*corev1.Event{}}
	w.put(objects...)
	return w
}

func (w *world) put(objects ...any) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, o := range objects {
		w.objects[fmt.Sprintf("%T %s", o, o.(metav1.Object).GetName())] = o
	}
	w.show()
}

func (w *world) show() {
	all := make([]any, 0, len(w.objects))
	for _, o := range w.objects {
		all = append(all, o)
	}
	w.snapshot = tracker.Merge(all...)
}

func (w *world) Snapshot() *tracker.Snapshot {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.snapshot
}

func (w *world) Conditions() []tracker.Condition {
	return []tracker.Condition{{Kind: tracker.ClassKind, Available: true}}
}

type done struct{ c chan struct{} }

func (d done) Name() string          { return "done" }
func (d done) Done() <-chan struct{} { return d.c }

func (w *world) HasSyncedChecker() cache.DoneChecker {
	c := make(chan struct{})
	close(c)
	return done{c}
}

func (w *world) WriteStatus(_ context.Context, p *v1alpha1.ResourceSlicePatch, status v1alpha1.ResourceSlicePatchStatus) (string, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.fail != nil {
		return "", w.fail
	}
	key := fmt.Sprintf("%T %s", p, p.Name)
	had, ok := w.objects[key].(*v1alpha1.ResourceSlicePatch)
	if !ok {
		return "", apierrors.NewNotFound(schema.GroupResource{}, p.Name)
	}
	written := had.DeepCopy()
	written.Status = status
	version, _ := strconv.Atoi(had.ResourceVersion)
	written.ResourceVersion = strconv.Itoa(version + 1)
	w.writes = append(w.writes, p.Name)
	w.objects[key] = written
	time.AfterFunc(w.lag, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.show()
	})
	return written.ResourceVersion, nil
}

func (w *world) CreateEvent(_ context.Context, e *corev1.Event) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.noEvents != nil {
		return w.noEvents
	}
	if w.events[e.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, e.Name)
	}
	w.events[e.Name] = e
	return nil
}

// counts returns how many writes and events there have been.
func (w *world) counts() (writes, events int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.writes), len(w.events)
}

func (w *world) status(name string) v1alpha1.ResourceSlicePatchStatus {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.objects["*v1alpha1.ResourceSlicePatch "+name].(*v1alpha1.ResourceSlicePatch).Status
}

// run starts a writer, which ends with the function that is returned.
func (w *world) run(t *testing.T, metrics *Metrics) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := New(Options{View: w, Client: w, Metrics: metrics}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// many makes 100 slices of 100 devices.
func many() (all []any) {
	for i := range 100 {
		devices := make([]string, 100)
		for d := range devices {
			devices[d] = "dev" + strconv.Itoa(d)
		}
		all = append(all, slice("s"+strconv.Itoa(i), devices...))
	}
	return all
}

// TestOneEventForManyDevices: 10,000 devices of which one expression fails give one
// event and one write, also after a restart and from a second writer; the next
// generation gives one more.
func TestOneEventForManyDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(append(many(), colored("bad", fails))...)
		registry := prometheus.NewPedanticRegistry()
		metrics, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.run(t, metrics)
		w.run(t, metrics)
		pass(time.Minute)
		if writes, events := w.counts(); events != 1 || writes > 2 {
			t.Fatalf("%d writes, %d events", writes, events)
		}
		for _, e := range w.events {
			if e.Reason != "CELError" || !strings.Contains(e.Message, "does not apply to 10000 devices") || e.InvolvedObject.Name != "bad" || e.Namespace != "default" {
				t.Errorf("%+v", e)
			}
		}
		stop()
		before, _ := w.counts()
		w.run(t, nil)
		pass(time.Minute)
		if writes, events := w.counts(); events != 1 || writes != before {
			t.Fatalf("%d writes, %d events after a restart", writes, events)
		}
		next := colored("bad", fails+" && true")
		next.Generation, next.ResourceVersion, next.Status = 4, "9", w.status("bad")
		w.put(next)
		pass(time.Minute)
		if _, events := w.counts(); events != 2 {
			t.Fatalf("%d events after the next generation", events)
		}
		if text, err := testutil.GatherAndCount(registry); err != nil || text == 0 {
			t.Errorf("%d metrics, %v", text, err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

// TestFlapping: a fault that disappears and returns in one generation is reported once.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(slice("s", "a"), colored("bad", fails))
		w.run(t, nil)
		for i := range 10 {
			if i%2 == 0 {
				w.put(slice("s", "a"))
			} else {
				w.put(slice("s"))
			}
			pass(time.Minute)
		}
		if writes, events := w.counts(); events != 1 || writes != 10 {
			t.Errorf("%d writes, %d events", writes, events)
		}
	})
}

// TestStart: a restart over statuses that are true writes nothing; over ones that are
// not it keeps to the rate.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []any{slice("s", "a")}
		for i := range 300 {
			objects = append(objects, colored("p"+strconv.Itoa(i)))
		}
		w := newWorld(objects...)
		stop := w.run(t, nil)
		pass(10 * time.Second)
		if writes, _ := w.counts(); writes > burst+10*DefaultPerSecond+1 || writes < 10*DefaultPerSecond-DefaultPerSecond {
			t.Errorf("%d writes in 10 s", writes)
		}
		pass(2 * time.Minute)
		if writes, _ := w.counts(); writes != 300 {
			t.Errorf("%d writes of 300", writes)
		}
		stop()
		w.run(t, nil)
		pass(2 * time.Minute)
		if writes, _ := w.counts(); writes != 300 {
			t.Errorf("%d writes after a restart", writes-300)
		}
	})
}

// TestGap: a patch whose devices come and go all the time is written every ten seconds,
// and what is written last is true.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(colored("red"))
		w.lag = 3 * time.Second
		w.run(t, nil)
		for i := range 600 {
			devices := make([]string, i%7)
			for d := range devices {
				devices[d] = "dev" + strconv.Itoa(d)
			}
			w.put(slice("s", devices...))
			pass(100 * time.Millisecond)
		}
		if writes, _ := w.counts(); writes < 5 || writes > 7 {
			t.Errorf("%d writes in 60 s", writes)
		}
		w.put(slice("s", "a", "b", "c"))
		pass(30 * time.Second)
		if got := w.status("red"); *got.MatchedDevices != 3 {
			t.Errorf("%v", texts(got))
		}
	})
}

// TestNewGeneration does not wait for the gap.
func TestNewGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(slice("s", "a"), colored("red"))
		w.run(t, nil)
		pass(time.Second)
		next := colored("red", "false")
		next.Generation, next.ResourceVersion, next.Status = 4, "9", w.status("red")
		w.put(next)
		pass(2 * time.Second)
		if got := w.status("red"); got.Conditions[1].Status != metav1.ConditionFalse || got.Conditions[1].ObservedGeneration != 4 {
			t.Errorf("%+v", got.Conditions[1])
		}
	})
}

// TestNotBeforeWritten: Applied is never true of a patch while no slice has its value, whether the writer looks
// before or after the resyncer, at the start and when the patch is created. Then it is false with the reason.
func TestNotBeforeWritten(t *testing.T) {
	for _, tt := range []struct{ writer, created time.Duration }{
		{800 * time.Millisecond, 5850 * time.Millisecond},  // the writer starts first, the resyncer sees the patch first
		{1200 * time.Millisecond, 5050 * time.Millisecond}, // the other way round
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(slice("s", "a", "b"), colored("old", `device.attributes["gpu.example.com"].model == "a"`))
			resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: w, Mode: slicemerge.Materialize,
				Touch: func(context.Context, materialize.Touch) error { return nil }}) // no webhook, so that nothing is written
			writer := New(Options{View: w, Client: w, Written: func() (any, *tracker.Snapshot, func(string) Written) {
				state := resyncer.State()
				if state == nil {
					return nil, nil, nil
				}
				return state, state.View, func(name string) Written { return Written(state.Patch(name)) }
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() { _ = resyncer.Run(ctx) })
			time.AfterFunc(tt.writer, func() { _ = writer.Run(ctx) })
			pass(tt.created)
			w.put(colored("new", `device.attributes["gpu.example.com"].model == "b"`))
			for range 300 {
				pass(50 * time.Millisecond)
				for _, name := range []string{"old", "new"} {
					if c := meta.FindStatusCondition(w.status(name).Conditions, v1alpha1.PatchApplied); c != nil && c.Status == metav1.ConditionTrue {
						t.Fatalf("%s: %s", name, c.Message)
					}
				}
			}
			if c := meta.FindStatusCondition(w.status("new").Conditions, v1alpha1.PatchApplied); c == nil || c.Reason != ReasonNotWritten {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestErrors: an API server that refuses is asked again after the gap; one that refuses
// events only still gets the status.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(slice("s", "a"), colored("bad", fails))
		w.fail = apierrors.NewInternalError(fmt.Errorf("etcd is away"))
		w.noEvents = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
		w.run(t, nil)
		pass(25 * time.Second)
		if writes, _ := w.counts(); writes != 0 {
			t.Errorf("%d writes", writes)
		}
		w.mutex.Lock()
		w.fail = nil
		w.mutex.Unlock()
		pass(15 * time.Second)
		if writes, events := w.counts(); writes != 1 || events != 0 {
			t.Errorf("%d writes, %d events", writes, events)
		}
	})
}

// TestForeignHands: what another client writes into the status is corrected.
func TestForeignHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(slice("s", "a"), colored("red"))
		w.run(t, nil)
		pass(time.Minute)
		foreign := colored("red")
		foreign.ResourceVersion = "77"
		w.put(foreign)
		pass(time.Minute)
		if got := w.status("red"); len(got.Conditions) != 5 || *got.MatchedDevices != 1 {
			t.Errorf("%v", texts(got))
		}
	})
}
