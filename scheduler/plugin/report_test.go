package plugin

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// It is said at once that patches do not count, again from time to time while that is so,
// and once when they do.
func TestWhatIsSaid(t *testing.T) {
	var state patchesState
	begin := time.Unix(0, 0)
	for i, step := range []struct {
		after  time.Duration
		reason string
		want   int
	}{
		{0, tracker.ReasonWaiting, sayNothing},
		{1 * time.Second, tracker.ReasonForbidden, sayOff},
		{2 * time.Second, tracker.ReasonForbidden, sayNothing},
		{3 * time.Second, tracker.ReasonNotInstalled, sayOff},
		{3*time.Second + repeatEvery, tracker.ReasonNotInstalled, sayOff},
		{4*time.Second + repeatEvery, tracker.ReasonNotInstalled, sayNothing},
		{5*time.Second + repeatEvery, tracker.ReasonWatching, sayOn},
		{6 * repeatEvery, tracker.ReasonWatching, sayNothing},
	} {
		condition := tracker.Condition{Reason: step.reason, Available: step.reason == tracker.ReasonWatching}
		if got, _ := state.next(condition, begin.Add(step.after)); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
	var fresh patchesState
	if got, _ := fresh.next(tracker.Condition{Reason: tracker.ReasonWatching, Available: true}, begin); got != sayNothing {
		t.Error("that patches count from the start needs no words")
	}
}

// That patches are materialized, too, is told from time to time, and not of slices of which
// nothing but the memory of that is left.
func TestMaterialized(t *testing.T) {
	slice := func(e record.Entry) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{}
		text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: e}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		s.Annotations = map[string]string{record.Annotation: text}
		return s
	}
	value := "a"
	written := record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: &value}}
	r := newReport(klog.Background(), nil, nil, nil)
	begin := time.Unix(1e9, 0)
	for i, tt := range []struct {
		slice *resourceapi.ResourceSlice
		after time.Duration
		want  bool
	}{
		{&resourceapi.ResourceSlice{}, 0, false},
		{slice(record.Entry{Previous: []record.PreviousValue{{Value: written}}}), 0, false},
		{slice(record.Entry{Written: written, Patch: "p"}), 0, true},
		{slice(record.Entry{Written: written, Patch: "p"}), time.Second, false},
		{slice(record.Entry{Written: written, Patch: "p"}), repeatEvery, true},
	} {
		if got := r.isTwice(tt.slice, begin.Add(tt.after)); got != tt.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
}
