package patchstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func slice(name string, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", UID: types.UID(name)},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}},
	}
	for _, d := range devices {
		model := d
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: d,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}})
	}
	return s
}

// colored makes a patch that sets example.com/color, for devices of which all
// expressions hold.
func colored(name string, expressions ...string) *v1alpha1.ResourceSlicePatch {
	color := name
	p := &v1alpha1.ResourceSlicePatch{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 3, ResourceVersion: "1"},
		Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
			Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"example.com/color": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &color}}},
		}},
	}
	for _, e := range expressions {
		if p.Spec.Devices.Filter == nil {
			p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{}
		}
		p.Spec.Devices.Filter.Selectors = append(p.Spec.Devices.Filter.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return p
}

func ofClass(p *v1alpha1.ResourceSlicePatch, class string) *v1alpha1.ResourceSlicePatch {
	p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{DeviceClassName: &class}
	return p
}

// crowded has 32 attributes and capacities, so that there is no room for another one.
func crowded() *resourceapi.ResourceSlice {
	s := slice("crowded", "a", "b")
	for d := range s.Spec.Devices {
		for i := range 31 {
			text := "x"
			s.Spec.Devices[d].Attributes[resourceapi.QualifiedName(fmt.Sprintf("a%d", i))] = resourceapi.DeviceAttribute{StringValue: &text}
		}
	}
	return s
}

const fails = `device.attributes["gpu.example.com"].missing == "x"`

// texts writes a status in lines.
func texts(s v1alpha1.ResourceSlicePatchStatus) (lines []string) {
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	lines = append(lines, fmt.Sprintf("%d in %d", *s.MatchedDevices, *s.MatchedSlices))
	for _, k := range s.SkippedKeys {
		lines = append(lines, fmt.Sprintf("skipped %s %s %d", k.Name, k.Reason, k.Devices))
	}
	return lines
}

func TestDecide(t *testing.T) {
	invalid := colored("red")
	invalid.Spec.Devices.Attributes["unqualified"] = v1alpha1.NullableDeviceAttribute{NullValue: &v1alpha1.NullValue{}}
	empty := colored("red")
	empty.Spec.Devices.Attributes = nil
	capacity := colored("red")
	capacity.Spec.Devices.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"gpu.example.com/memory": {Value: resource.MustParse("1Gi")}}
	first := func(p *v1alpha1.ResourceSlicePatch) *v1alpha1.ResourceSlicePatch {
		priority := int64(1)
		p.Spec.Devices.Priority = &priority
		return p
	}
	fine := "Accepted True Valid, Applied True Patched, Conflicting False NoConflict, ClassNotFound False %s, CELError False NoError, %s"
	none := "Accepted True Valid, Applied False %s, Conflicting False NoConflict, ClassNotFound False NoClass, CELError False NoError, %s"
	for name, tt := range map[string]struct {
		patch      *v1alpha1.ResourceSlicePatch
		others     []any
		unreadable bool
		want       string
		events     string
	}{
		"fine":        {colored("red"), []any{slice("s", "a", "b"), slice("t", "a")}, false, fmt.Sprintf(fine, "NoClass", "3 in 2"), ""},
		"of a class":  {ofClass(colored("red"), "gpu"), []any{slice("s", "a"), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}, false, fmt.Sprintf(fine, "ClassFound", "1 in 1"), ""},
		"no device":   {colored("red"), nil, false, fmt.Sprintf(none, "NoDeviceMatches", "0 in 0"), ""},
		"empty":       {empty, []any{slice("s", "a")}, false, fmt.Sprintf(none, "NothingToPatch", "1 in 1"), ""},
		"outvoted":    {colored("red"), []any{slice("s", "a"), first(colored("blue"))}, false, fmt.Sprintf(none, "Outvoted", "1 in 1"), ""},
		"with others": {capacity, []any{slice("s", "a"), first(colored("blue"))}, false, fmt.Sprintf(fine, "NoClass", "1 in 1"), ""},
		"tied": {colored("red"), []any{slice("s", "a", "b"), colored("blue")}, false,
			"Accepted True Valid, Applied False Outvoted, Conflicting True Tied, ClassNotFound False NoClass, CELError False NoError, 2 in 1",
			"Conflicting: in 2 devices a patch of the same priority wins attributes[example.com/color], blue: set different priorities"},
		"no room": {colored("red"), []any{crowded()}, false,
			"Accepted True Valid, Applied False Outvoted, Conflicting True LimitReached, ClassNotFound False NoClass, CELError False NoError, 2 in 1, skipped example.com/color LimitReached 2",
			"LimitReached: 2 devices have no room for attributes[example.com/color]"},
		"no class": {ofClass(colored("red"), "gpu"), []any{slice("s", "a")}, false,
			"Accepted False ClassNotFound, Applied False NoDeviceMatches, Conflicting False NoConflict, ClassNotFound True ClassNotFound, CELError False NoError, 0 in 0",
			`ClassNotFound: spec.devices.filter.deviceClassName: there is no DeviceClass "gpu": create it, or correct the name`},
		"classes unknown": {ofClass(colored("red"), "gpu"), []any{slice("s", "a")}, true,
			"Accepted Unknown ClassesNotRead, Applied False NoDeviceMatches, Conflicting False NoConflict, ClassNotFound Unknown ClassesNotRead, CELError False NoError, 0 in 0", ""},
		"wrong expression": {colored("red", "device."), []any{slice("s", "a")}, false,
			"Accepted False CELError, Applied False NoDeviceMatches, Conflicting False NoConflict, ClassNotFound False NoClass, CELError True DoesNotCompile, 0 in 0",
			"CELError: spec.devices.filter.selectors[0].cel.expression: compilation failed"},
		"failing expression": {colored("red", fails), []any{slice("s", "a", "b"), slice("t", "a")}, false,
			"Accepted True Valid, Applied False NoDeviceMatches, Conflicting False NoConflict, ClassNotFound False NoClass, CELError True EvaluationFailed, 0 in 0",
			"CELError: does not apply to 3 devices because an expression failed, first: device a of ResourceSlice s"},
		"invalid value": {invalid, []any{slice("s", "a", "b")}, false,
			"Accepted False InvalidValue, Applied True Patched, Conflicting False NoConflict, ClassNotFound False NoClass, CELError False NoError, 2 in 1, skipped unqualified InvalidValue 2",
			"InvalidValue: "},
	} {
		t.Run(name, func(t *testing.T) {
			report := reportOf(t, tt.patch, tt.others...)
			now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			status := Decide(report, !tt.unreadable, now)
			if got := strings.Join(texts(status), ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			var events []string
			for _, f := range faults(report, !tt.unreadable) {
				events = append(events, string(f.reason)+": "+f.message)
				if hasEvent(tt.patch, f.reason) {
					t.Errorf("%s has an event although there is no status", f.reason)
				}
			}
			if got := strings.Join(events, "\n"); !strings.HasPrefix(got, tt.events) || (got == "") != (tt.events == "") || len(events) > 1 {
				t.Errorf("events %q, want %q", got, tt.events)
			}
			stored := tt.patch.DeepCopy()
			stored.Status = status
			again := reportOf(t, stored, tt.others...)
			if later := Decide(again, !tt.unreadable, metav1.NewTime(now.Add(time.Hour))); !equality.Semantic.DeepEqual(later, status) {
				t.Errorf("not the same after it was written:\n%v\n%v", later, status)
			}
			for _, f := range faults(again, !tt.unreadable) {
				if !hasEvent(stored, f.reason) {
					t.Errorf("%s has no event although the status says it", f.reason)
				}
			}
			stored.Generation++
			for _, f := range faults(again, !tt.unreadable) {
				if hasEvent(stored, f.reason) {
					t.Errorf("%s has an event of the next generation", f.reason)
				}
			}
		})
	}
}

func reportOf(t *testing.T, p *v1alpha1.ResourceSlicePatch, others ...any) tracker.PatchReport {
	t.Helper()
	for _, r := range tracker.Merge(append([]any{p}, others...)...).PatchReports() {
		if r.Patch == p {
			return r
		}
	}
	t.Fatal("no report")
	return tracker.PatchReport{}
}

// TestWritten: Applied is true only if slices have some of the patch.
func TestWritten(t *testing.T) {
	const what = "attributes[example.com/color] in device a: NoLists"
	for name, tt := range map[string]struct {
		written Written
		want    string
	}{
		"not in use":      {Written{}, "True Patched"},
		"in all slices":   {Written{Values: 2}, "True Patched"},
		"some left out":   {Written{Values: 1, Blocked: 1, What: what}, "True Patched"},
		"all left out":    {Written{Blocked: 2, What: what}, "False Refused"},
		"not yet written": {Written{Values: 2, Differing: 1}, "False NotWritten: 1 ResourceSlices do not have it yet"},
		"not yet removed": {Written{Left: 1}, "False NotWritten: 1 ResourceSlices still have it"},
		"refused":         {Written{Refused: 1, Why: "too large"}, "False Refused"},
		"elsewhere":       {Written{Elsewhere: "a scheduler"}, "False TwoModes"},
	} {
		status := decide(reportOf(t, colored("red"), slice("s", "a", "b")), true, tt.written, metav1.Now())
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.PatchApplied)
		if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: Applied is %s, want %s", name, got, tt.want)
		}
		if conflicting := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.PatchConflicting); conflicting != (tt.written.Blocked > 0) {
			t.Errorf("%s: Conflicting is %t", name, conflicting)
		}
	}
}

// TestMessagesAreBounded: what an expression says may be long, a condition may not.
func TestMessagesAreBounded(t *testing.T) {
	if got := shortened(strings.Repeat("é", 1000)); len(got) > messageLength+4 || !strings.HasSuffix(got, "é …") {
		t.Errorf("%d bytes: %q", len(got), got[900:])
	}
	if got := shortened("short"); got != "short" {
		t.Error(got)
	}
}

// TestEventName stays a name, and differs by generation and reason only.
func TestEventName(t *testing.T) {
	p := colored(strings.Repeat("long.", 50) + "x")
	now := metav1.Now()
	a, b := event(p, fault{reason: "CELError"}, now), event(p, fault{reason: "CELError", message: "other"}, now)
	if a.Name != b.Name || len(a.Name) > 253 || strings.Contains(a.Name, "..") {
		t.Errorf("%q, %q", a.Name, b.Name)
	}
	p.Generation++
	if c := event(p, fault{reason: "CELError"}, now); c.Name == a.Name {
		t.Error("the next generation has the same name")
	}
}
