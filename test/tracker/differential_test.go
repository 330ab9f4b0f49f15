package tracker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	gosort "slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
)

// normal removes what a known fault of upstream explains: it gives the taints of rules in
// the order of a Go map, and a rule without selector, whose taint is in excess, taints
// all devices (kubernetes/kubernetes#141620, fixed in 0.37.1).
func normal(slice *resourceapi.ResourceSlice, published *resourceapi.ResourceSlice, excess map[string]bool) *resourceapi.ResourceSlice {
	slice = slice.DeepCopy()
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		own := len(published.Spec.Devices[i].Taints)
		added := gosort.DeleteFunc(d.Taints[own:], func(t resourceapi.DeviceTaint) bool { return excess[t.Key] })
		gosort.SortFunc(added, func(a, b resourceapi.DeviceTaint) int { return cmp.Compare(a.Key, b.Key) })
		if d.Taints = append(d.Taints[:own], added...); len(d.Taints) == 0 {
			d.Taints = nil
		}
	}
	return slice
}

// reader keeps a view out of events.
type reader struct {
	mutex sync.Mutex
	view  map[string]*resourceapi.ResourceSlice
	last  chan struct{} // closed when the last slice is seen
}

func (r *reader) OnAdd(object any, _ bool) { r.set(object) }
func (r *reader) OnUpdate(_, object any)   { r.set(object) }
func (r *reader) OnDelete(object any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.view, object.(*resourceapi.ResourceSlice).Name)
}

func (r *reader) set(object any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	slice := object.(*resourceapi.ResourceSlice)
	r.view[slice.Name] = slice
	if slice.Name == "slice-999" {
		close(r.last)
	}
}

// TestDifferential sends the same random histories to both trackers, one change after
// the other, and compares the views after each change. With DRA_STEWARD_CAMPAIGN, a duration,
// it goes on with further seeds until the time is over. The seed of a history is its name.
func TestDifferential(t *testing.T) {
	campaign, err := time.ParseDuration(cmp.Or(os.Getenv("DRA_STEWARD_CAMPAIGN"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	explained, steps, begin := 0, 0, time.Now()
	for seed := uint64(0); seed < 20 || time.Since(begin) < campaign && !t.Failed(); seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			subjects := map[string]*subject{}
			for name, start := range implementations() {
				subjects[name] = newSubject()
				start(subjects[name], t)
			}
			excess := map[string]bool{}
			for step := range 150 {
				change := randomChange(random, seed*1000+uint64(step), excess)
				views := map[string]map[string]*resourceapi.ResourceSlice{}
				for name, s := range subjects {
					change(s)
					s.flush()
					views[name] = map[string]*resourceapi.ResourceSlice{}
					for _, slice := range s.list() {
						published, _, _ := s.slices.indexer.GetByKey(slice.Name)
						views[name][slice.Name] = normal(slice, published.(*resourceapi.ResourceSlice), excess)
					}
				}
				steps++
				if len(excess) > 0 {
					explained++
				}
				if diff := gocmp.Diff(views["upstream"], views["ours"]); diff != "" {
					t.Fatalf("step %d: the views differ, which no known fault explains (-upstream +ours):\n%s", step, diff)
				}
			}
		})
	}
	t.Logf("%d changes; while %d of them there was a rule without selector, which upstream applies to every device", steps, explained)
}

// randomChange makes a change of few names, so that they meet.
func randomChange(random *rand.Rand, version uint64, excess map[string]bool) func(*subject) {
	some := func(of string, n int) string { return of + strconv.Itoa(random.IntN(n)) }
	missed := random.IntN(2) == 0
	if random.IntN(2) == 0 {
		name := some("slice", 8)
		if random.IntN(4) == 0 {
			return func(s *subject) { s.slices.remove(name, missed) }
		}
		slice := resourceSlice(random.IntN(6), 1+random.IntN(4))
		slice.Name, slice.ResourceVersion = name, strconv.FormatUint(version, 10)
		for i := range slice.Spec.Devices {
			if random.IntN(3) == 0 {
				slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "example.com/own", Effect: resourceapi.DeviceTaintEffectNoExecute}}
			}
		}
		return func(s *subject) { s.slices.set(slice) }
	}
	name := some("rule", 6)
	key := "example.com/" + name
	delete(excess, key)
	if random.IntN(3) == 0 {
		return func(s *subject) { s.rules.remove(name, missed) }
	}
	r := rule(name, &resourceapi.DeviceTaintSelector{})
	r.ResourceVersion = strconv.FormatUint(version, 10)
	for _, one := range []struct { // not a map: the same seed makes the same history
		value string
		field **string
	}{
		{fmt.Sprintf("driver-%d.example.com", random.IntN(4)), &r.Spec.DeviceSelector.Driver},
		{some("node-", 6), &r.Spec.DeviceSelector.Pool},
		{some("device-", 4), &r.Spec.DeviceSelector.Device},
	} {
		if random.IntN(2) == 0 {
			*one.field = &one.value
		}
	}
	if random.IntN(12) == 0 {
		r.Spec.DeviceSelector = nil
		excess[key] = true
	}
	return func(s *subject) { s.rules.set(r) }
}

// TestEventsAgree sends one history to both and compares what a reader of the events
// knows at the end, and that neither changed what it was given.
func TestEventsAgree(t *testing.T) {
	views := map[string]string{}
	for name, start := range implementations() {
		s := newSubject()
		start(s, t)
		r := &reader{view: map[string]*resourceapi.ResourceSlice{}, last: make(chan struct{})}
		s.handle(r)
		random := rand.New(rand.NewPCG(7, 7))
		excess := map[string]bool{}
		for step := range uint64(400) {
			change := randomChange(random, step, excess)
			if len(excess) > 0 { // a rule without selector
				clear(excess)
				continue
			}
			change(s)
			s.flush()
		}
		s.slices.set(resourceSlice(999, 1))
		<-r.last // events come in their order
		r.mutex.Lock()
		view := map[string]*resourceapi.ResourceSlice{}
		for name, slice := range r.view {
			published, _, _ := s.slices.indexer.GetByKey(name)
			view[name] = normal(slice, published.(*resourceapi.ResourceSlice), nil)
		}
		r.mutex.Unlock()
		out, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		views[name] = string(out)
	}
	if views["upstream"] != views["ours"] {
		t.Errorf("readers of the events have different views:\n%s", gocmp.Diff(views["upstream"], views["ours"]))
	}
}
