package tracker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// costly takes about half of what the expressions of a patch may cost for a slice.
const costly = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4].all(d, a + b + c + d > 0))))"

func colorOf(t *testing.T, s *Snapshot, name string) string {
	t.Helper()
	slice := s.Get(name)
	if slice == nil {
		t.Fatalf("there is no slice %s", name)
	}
	value := slice.Spec.Devices[0].Attributes["example.com/color"].StringValue
	if value == nil {
		return ""
	}
	return *value
}

// TestRulesDoNotWaitForPatches holds that a batch evaluates patches up to a cost only, that rules
// and slices are shown meanwhile, and that each slice is patched when it is evaluated.
func TestRulesDoNotWaitForPatches(t *testing.T) {
	s := newState()
	s.stepCost = 1
	batch := map[objectKey]any{{PatchKind, "p"}: color("p", "red", costly)}
	for i := range 6 {
		name := fmt.Sprint("s", i)
		batch[objectKey{SliceKind, name}] = slice(name, "d", "p", "dev0")
	}
	s.apply(batch)
	if s.current.unfinished != 5 || colorOf(t, s.current, "s0") != "red" || colorOf(t, s.current, "s5") != "" || !s.current.Unfinished("s5") || s.current.Unfinished("s0") {
		t.Fatalf("%d slices are unfinished", s.current.unfinished)
	}
	if report := s.current.PatchReports()[0]; report.Unfinished != 5 || report.Report.Devices != 1 {
		t.Errorf("got the report %+v", report)
	}
	if visible := s.apply(map[objectKey]any{{RuleKind, "r"}: taintRule("r", selector("d", "", ""))}); len(visible) != 6 || s.current.unfinished != 4 {
		t.Errorf("a rule taints %d slices, %d are unfinished", len(visible), s.current.unfinished)
	}
	for range 4 {
		s.apply(nil)
	}
	if s.current.unfinished != 0 || colorOf(t, s.current, "s5") != "red" || len(s.current.Get("s5").Spec.Devices[0].Taints) != 1 {
		t.Errorf("%d slices are unfinished: %v", s.current.unfinished, s.current.Get("s5"))
	}
}

// TestSlicesKeepTheirLastResult holds that a patched slice keeps its values until it is evaluated
// again, but for devices that its driver has changed.
func TestSlicesKeepTheirLastResult(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "dev0", "dev1", "dev2"), {SliceKind, "other"}: slice("other", "d", "p2", "dev0"), {PatchKind, "p"}: color("p", "red", "true")})
	s.stepCost = 1
	changed, n := slice("s", "d", "p", "dev1", "dev0", "dev3"), int64(5)
	changed.ResourceVersion = "2"
	changed.Spec.Devices[1].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"n": {IntValue: &n}}
	s.apply(map[objectKey]any{{PatchKind, "p"}: color("p", "blue", "device.driver == 'd'"), {SliceKind, "s"}: changed})
	var got []string
	for _, d := range s.current.Get("s").Spec.Devices {
		value := "none"
		if v := d.Attributes["example.com/color"].StringValue; v != nil {
			value = *v
		}
		got = append(got, d.Name+" "+value)
	}
	if got := strings.Join(got, ", "); !s.current.Unfinished("s") || got != "dev1 red, dev0 none, dev3 none" {
		t.Errorf("got %s", got)
	}
	for range 4 {
		s.apply(nil)
	}
	if got := colorOf(t, s.current, "s") + colorOf(t, s.current, "other"); got != "blueblue" {
		t.Errorf("got %s in the end", got)
	}
	s.stepCost = 1
	s.apply(map[objectKey]any{{PatchKind, "p"}: color("p", "green", costly)})
	s.apply(map[objectKey]any{{SliceKind, "s"}: nil})
	s.apply(map[objectKey]any{{SliceKind, "other"}: nil})
	s.apply(nil)
	if s.current.unfinished != 0 || len(s.current.List(nil)) != 0 {
		t.Errorf("%d slices are unfinished, all are deleted", s.current.unfinished)
	}
}

// TestTrackerEndsWhileItEvaluates holds that patches that would take minutes delay neither rules
// nor the end.
func TestTrackerEndsWhileItEvaluates(t *testing.T) {
	devices := make([]string, 128)
	for i := range devices {
		devices[i] = fmt.Sprint("dev", i)
	}
	tracker := New(Options{})
	for i := range 50 {
		// Each ends at the limit of cost for a slice.
		tracker.put(color(fmt.Sprint("p", i), "red", fmt.Sprintf("%s && %d == %[2]d", strings.Replace(costly, "a + b", "[1].all(e, e > 0) && a + b", 1), i)))
	}
	for i := range 100 {
		name := fmt.Sprint("s", i)
		tracker.put(slice(name, "d", name, devices...))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- tracker.Run(ctx) }()
	<-tracker.HasSyncedChecker().Done()
	tainted := make(chan bool)
	tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) {
		if s := now.(*resourceapi.ResourceSlice); s.Name == "s99" && len(s.Spec.Devices[0].Taints) > 0 {
			close(tainted)
		}
	}})
	tracker.put(taintRule("r", selector("d", "", "")))
	<-tainted
	cancel()
	if err := <-ended; err != nil || tracker.Snapshot().unfinished == 0 {
		t.Errorf("got %v with %d unfinished slices", err, tracker.Snapshot().unfinished)
	}
}
