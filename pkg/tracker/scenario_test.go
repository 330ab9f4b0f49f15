package tracker

import (
	"maps"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// event is an event of an informer: an object is added, updated or deleted.
type event struct {
	old, new metav1.Object
	// missed deletions come as a tombstone without the object.
	missed bool
}

func (e event) object() metav1.Object {
	if e.new != nil {
		return e.new
	}
	return e.old
}

func (e event) key() objectKey {
	if _, ok := e.object().(*resourceapi.ResourceSlice); ok {
		return objectKey{SliceKind, e.object().GetName()}
	}
	return objectKey{RuleKind, e.object().GetName()}
}

func (e event) send(to *inbox) {
	handler := to.handler(e.key().kind)
	switch {
	case e.old == nil:
		handler.OnAdd(e.new, false)
	case e.new != nil:
		handler.OnUpdate(e.old, e.new)
	case e.missed:
		handler.OnDelete(cache.DeletedFinalStateUnknown{Key: e.old.GetName()})
	default:
		handler.OnDelete(e.old)
	}
}

func add(objects ...metav1.Object) (events []event) {
	for _, object := range objects {
		events = append(events, event{new: object})
	}
	return events
}

func update(old, changed metav1.Object) event { return event{old: old, new: changed} }
func remove(object metav1.Object) event       { return event{old: object} }
func miss(object metav1.Object) event         { return event{old: object, missed: true} }

// scenarios are those of upstream's TestListPatchedResourceSlices. Its patch-all-slices
// uses a rule without selector; here that one is no-selector, and matches nothing.
func scenarios() map[string][]event {
	s1, s2 := slice("s1", "driver1", "pool1", "dev1", "dev2"), slice("s2", "driver2", "pool2", "dev1", "dev3")
	s1more := slice("s1", "driver1", "pool1", "dev1", "dev2", "dev3")
	s1less := slice("s1", "driver1", "pool1", "dev2")
	own := driverTaint(slice("s1", "driver1", "pool1", "dev1", "dev2"), "example.com/own")
	all := taintRule("all", selector("", "", ""))
	ofPool := func(pool string) *resourceapi.DeviceTaintRule { return taintRule("pool", selector("", pool, "")) }
	both := add(s1, s2)
	with := func(events ...event) []event { return append(slices.Clone(both), events...) }
	return map[string][]event{
		"add-slices-no-patches":             both,
		"update-slices-no-patches":          with(update(s1, s1more)),
		"delete-slices":                     with(remove(s1), remove(s2)),
		"delete-slices-missed":              with(miss(s1), remove(s2)),
		"patch-all-slices":                  with(add(all)...),
		"no-selector":                       with(add(taintRule("none", nil))...),
		"update-patch":                      with(event{new: ofPool("pool1")}, update(ofPool("pool1"), ofPool("pool2"))),
		"remove-patch-known-deleted-rule":   with(event{new: all}, remove(all)),
		"remove-patch-unknown-deleted-rule": with(event{new: all}, miss(all)),
		"merge-taints":                      add(own, s2, all, ofPool("pool1")),
		"add-taint-for-driver":              with(add(taintRule("r", selector("driver1", "", "")))...),
		"add-taint-for-pool":                with(add(ofPool("pool1"))...),
		"add-taint-for-device":              with(add(taintRule("r", selector("", "", "dev1")))...),
		"filter-all-criteria": with(add(taintRule("r", selector("driver1", "pool1", "dev1")),
			taintRule("other", selector("driver1", "pool2", "dev1")))...),
		"update-patched-slice": {{new: all}, {new: s1}, update(s1, s1more), update(s1more, s1less)},
		"replaced-rule":        {{new: s1}, {new: all}, remove(all), {new: taintRule("all", selector("", "", "dev2"))}},
	}
}

// TestScenarios runs every scenario over all orders of its events that keep the order of
// those of one object, in all ways to cut them into batches when there are few.
func TestScenarios(t *testing.T) {
	for name, events := range scenarios() {
		t.Run(name, func(t *testing.T) {
			orders := 0
			permute(nil, events, func(order []event) {
				orders++
				for cuts := range 1 << (len(order) - 1) {
					run(t, order, cuts)
				}
			})
			if orders == 0 {
				t.Fatal("no order was run")
			}
			t.Logf("%d orders of %d events", orders, len(events))
		})
	}
}

// permute calls f with each order.
func permute(done, left []event, f func([]event)) {
	if len(left) == 0 {
		f(done)
	}
	for i, e := range left {
		if !slices.ContainsFunc(left[:i], func(other event) bool { return other.key() == e.key() }) {
			permute(append(slices.Clone(done), e), slices.Delete(slices.Clone(left), i, i+1), f)
		}
	}
}

// run sends the events; after each whose bit is set in cuts the tracker works them in.
func run(t *testing.T, order []event, cuts int) {
	t.Helper()
	box, s := newInbox(), newState()
	objects := map[objectKey]any{}
	known := map[string]*resourceapi.ResourceSlice{}
	for i, e := range order {
		e.send(box)
		if objects[e.key()] = e.new; e.new == nil {
			delete(objects, e.key())
		}
		if cuts&(1<<i) != 0 || i == len(order)-1 {
			batch, _ := box.take()
			replay(t, known, s.apply(batch))
			check(t, s.current, objects)
		}
	}
	if text(t, known) != text(t, view(s.current)) {
		t.Fatal("a reader of the events has another view")
	}
}

// TestTaintOrder shows the order: those of the driver, then those of rules by name.
func TestTaintOrder(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{
		{SliceKind, "s"}: driverTaint(slice("s", "d", "p", "dev"), "example.com/own"),
		{RuleKind, "c"}:  taintRule("c", selector("d", "", "")),
		{RuleKind, "a"}:  taintRule("a", selector("", "", "dev")),
		{RuleKind, "b"}:  taintRule("b", selector("", "", "")),
	})
	device, _ := s.current.Device("d", "p", "dev")
	var got []string
	for _, taint := range device.Taints() {
		got = append(got, taint.Key+" of "+taint.Source.String())
	}
	if got := strings.Join(got, ", "); got != "example.com/own of driver/d, example.com/a of rule/a, example.com/b of rule/b, example.com/c of rule/c" {
		t.Error(got)
	}
	if len(device.Published().Taints) != 1 || len(device.Slice().Spec.Devices) != 1 {
		t.Error("the published device has taints of rules")
	}
}

// TestSharing shows what a merged slice shares with the published one.
func TestSharing(t *testing.T) {
	published := slice("s", "d", "p", "dev1", "dev2")
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: published})
	if s.current.Get("s") != published {
		t.Error("a slice that nothing changes is copied")
	}
	s.apply(map[objectKey]any{{RuleKind, "r"}: taintRule("r", selector("", "", "dev2"))})
	merged := s.current.Get("s")
	same := func(a, b map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
		return text(t, maps.Collect(maps.All(a))) == text(t, b) && a["model"].StringValue == b["model"].StringValue
	}
	for i := range merged.Spec.Devices {
		if !same(merged.Spec.Devices[i].Attributes, published.Spec.Devices[i].Attributes) {
			t.Error("attributes are copied")
		}
	}
	if len(published.Spec.Devices[1].Taints) != 0 || len(merged.Spec.Devices[1].Taints) != 1 {
		t.Error("the taint is not where it belongs")
	}
}
