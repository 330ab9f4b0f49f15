package impact

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// toggle changes the effect of a stored rule to NoExecute and back so many times.
func toggle(i *Estimator, n, times int) {
	none, execute := oneDevice(n, resourceapi.DeviceTaintEffectNone), oneDevice(n, resourceapi.DeviceTaintEffectNoExecute)
	for k := range times {
		none.Generation, execute.Generation = int64(2*k+1), int64(2*k+2)
		i.changed(none, execute, time.Now())
		i.changed(execute, none, time.Now())
	}
}

// BenchmarkToggles is how long the guard takes after one rule was toggled.
//
//	go test ./internal/guard/impact -run '^$' -bench Toggles -benchtime 50x
func BenchmarkToggles(b *testing.B) {
	for _, times := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprint(times), func(b *testing.B) {
			i := crowd(b, 1000)
			h := guardOf(b, i, v1alpha1.StewardConfiguration{})
			toggle(i, 0, times)
			request := updates(b, oneDevice(1, resourceapi.DeviceTaintEffectNone))
			request.DryRun = new(true)
			for b.Loop() {
				if !h.Handle(context.Background(), request).Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
}

// TestToggles is an attack: a rule whose effect is changed again and again, to make each answer
// of the guard more expensive. It stays one entry, and counts its pod once.
func TestToggles(t *testing.T) {
	i := crowd(t, 1000)
	h := guardOf(t, i, v1alpha1.StewardConfiguration{})
	toggle(i, 0, 10_000)
	request := updates(t, oneDevice(1, resourceapi.DeviceTaintEffectNone))
	request.DryRun = new(true)
	if got := h.Handle(t.Context(), request); !got.Allowed {
		t.Fatal(got.Result.Message)
	}
	if n := len(i.beginnings.all); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	few := crowd(t, 1000)
	toggle(few, 0, 1)
	once := testing.AllocsPerRun(10, func() { few.beginnings.starts(&admissions{}, "", time.Now(), guard.DefaultWindow) })
	often := testing.AllocsPerRun(10, func() { i.beginnings.starts(&admissions{}, "", time.Now(), guard.DefaultWindow) })
	if often > 2*once { // goroutines of the process allocate, too
		t.Errorf("a count allocates %.0f times after 10,000 changes and %.0f times after one", often, once)
	}
}

// TestTogglesCount: pods that left because of an earlier effect of a rule count together with
// those of the present one, each for a window from when it was affected.
func TestTogglesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		admits := func(n int) bool {
			request := updates(t, oneDevice(n, resourceapi.DeviceTaintEffectNone))
			request.DryRun = new(true)
			return h.Handle(t.Context(), request).Allowed
		}
		// One rule evicts from one device after the other, a pod a minute.
		moved := oneDevice(0, resourceapi.DeviceTaintEffectNoExecute)
		i.changed(nil, moved, time.Now())
		for n := range 20 {
			i.Index.DeletePod(fmt.Sprintf("team-%02d", n/8), fmt.Sprintf("trainer-%05d", n))
			if n == 19 {
				break
			}
			<-time.After(25 * time.Second)
			next := oneDevice(n+1, resourceapi.DeviceTaintEffectNoExecute)
			next.Name = moved.Name
			i.changed(moved, next, time.Now())
			moved = next
		}
		if admits(100) {
			t.Error("the pods of one rule do not count together")
		}
		i.Deleted(moved)
		if admits(100) {
			t.Error("pods that left do not count once the rule is deleted")
		}
		<-time.After(3 * time.Minute) // the first pod was affected 10:55 ago, the third one 10:05
		if !admits(100) {
			t.Error("a pod counts for longer than the window because its rule went on to others")
		}
	})
}

// TestMostStarts: evictions that cannot be remembered make the guard ask for an
// acknowledgement until they are older than the window.
func TestMostStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 64)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		for n := range guard.MostStarts + 500 {
			i.changed(nil, oneDevice(1000+n, resourceapi.DeviceTaintEffectNoExecute), time.Now())
		}
		if n := len(i.beginnings.all); n != guard.MostStarts {
			t.Errorf("%d entries, want %d", n, guard.MostStarts)
		}
		rule := oneDevice(0, resourceapi.DeviceTaintEffectNone)
		ask := func() (bool, string) {
			request := updates(t, rule)
			request.DryRun = new(true)
			got := h.Handle(t.Context(), request)
			if got.Allowed {
				return true, ""
			}
			return false, got.Result.Message
		}
		if admitted, said := ask(); admitted || !strings.Contains(said, "more began than are counted, which are 1000 rules and drains, and 100000 pods") || !strings.Contains(said, "or wait until") {
			t.Errorf("admitted %v: %s", admitted, said)
		}
		rule.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=1"}
		if admitted, said := ask(); !admitted {
			t.Errorf("acknowledged: %s", said)
		}
		rule.Annotations = nil
		<-time.After(guard.DefaultWindow)
		if admitted, said := ask(); !admitted {
			t.Errorf("after the window: %s", said)
		}
	})
}
