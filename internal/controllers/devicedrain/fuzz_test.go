package devicedrain_test

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
)

// FuzzDecide lets drains of any spec and status decide: nothing panics, lists stay within
// what the schema allows, and only pods that may be evicted are.
func FuzzDecide(f *testing.F) {
	f.Add([]byte("seed"), uint16(0))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 254}, uint16(4000))
	f.Fuzz(func(t *testing.T, data []byte, seconds uint16) {
		w := newWorld(t, 3, nil)
		randfill.NewFromGoFuzz(data).NilChance(.3).NumElements(0, 3).Funcs(
			func(at *metav1.Time, c randfill.Continue) {
				at.Time = begin.Add(time.Duration(c.Int63n(4000)-1000) * time.Second)
			},
			func(at *metav1.MicroTime, c randfill.Continue) {
				at.Time = begin.Add(time.Duration(c.Int63n(4e9)-1e9) * time.Microsecond)
			},
			func(n *v1alpha1.DeviceName, c randfill.Continue) { *n = device(c.Intn(3)) },
			func(r *resourceapi.DeviceSelector, _ randfill.Continue) {},
			func(one *v1alpha1.Window, c randfill.Continue) {
				one.From, one.To = fmt.Sprintf("%02d:00", c.Intn(24)), fmt.Sprintf("%02d:00", c.Intn(25)) // which may not be valid
			},
		).Fill(&w.drain.Spec)
		randfill.NewFromGoFuzz(data).NilChance(.5).NumElements(0, 2).Funcs(
			func(at *metav1.Time, c randfill.Continue) { at.Time = begin },
			func(at *metav1.MicroTime, c randfill.Continue) { at.Time = begin },
			func(n *v1alpha1.DeviceName, c randfill.Continue) { *n = device(c.Intn(3)) },
		).Fill(&w.drain.Status)
		w.drain.Spec.Selector, w.drain.Spec.Devices = nil, []v1alpha1.DeviceName{device(0), device(1)}
		shared := w.claim("shared", 0, 1)
		w.pod("web", shared, 0)
		w.pod("", nil, 1)
		w.budget("web", "web", 0)
		for _, d := range w.drain.Spec.Devices {
			w.rules = append(w.rules, drain.Rule(w.drain, d))
		}
		w.now = begin.Add(time.Duration(seconds) * time.Second)
		got := drain.Decide(w.input())
		s := w.drain.Spec
		if len(got.Evict) > 0 && (s.Paused || s.DryRun || w.drain.Status.CompletionTime != nil) {
			t.Errorf("evicts %v with %+v", got.Evict, s)
		}
		if state, err := windows.At(s.Windows, w.now); len(got.Evict)+len(got.Ask) > 0 && (err != nil || !state.Open) {
			t.Errorf("evicts %v and asks %v outside of %v", got.Evict, got.Ask, s.Windows)
		}
		for _, one := range got.Evict {
			if one.Delete && (s.Deadline == nil || s.Deadline.Action != v1alpha1.DeadlineDelete) {
				t.Errorf("deletes %v with the deadline %+v", one, s.Deadline)
			}
			for _, p := range w.pods {
				if p.UID == one.UID && p.Labels["app"] == "" && !one.Delete && s.PodsWithoutController != v1alpha1.EvictPods {
					t.Errorf("evicts a pod that no controller replaces")
				}
			}
		}
		if len(got.Status.Evicting) > 128 || len(got.Status.Blocked) > 64 || len(got.Status.Attempts) > 512 || len(got.Status.EvictedByOwner) > 512 {
			t.Errorf("lists of %d, %d and %d", len(got.Status.Evicting), len(got.Status.Blocked), len(got.Status.Attempts))
		}
	})
}
