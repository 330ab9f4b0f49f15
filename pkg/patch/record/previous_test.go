package record

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestPreviousIsBounded: an entry keeps the newest previous values, no more than a record may have.
func TestPreviousIsBounded(t *testing.T) {
	value := func(n int) Value {
		return Value{Attribute: &resourceapi.DeviceAttribute{StringValue: new(fmt.Sprint(n))}}
	}
	var e Entry
	for n := range 3 * maxPrevious {
		e = e.next(value(-1), value(n), "patch")
	}
	if len(e.Previous) != maxPrevious {
		t.Fatalf("%d previous values, want %d", len(e.Previous), maxPrevious)
	}
	if last := e.Previous[maxPrevious-1].Value; !last.Equal(value(3*maxPrevious - 2)) {
		t.Errorf("the last previous value is %+v", last)
	}
}
