package condition

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSet: a transition is when the status changes, in whole seconds, and not when the message does.
func TestSet(t *testing.T) {
	var all []metav1.Condition
	begin := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for i, c := range []Condition{{"Ready", false, "Waiting", "a"}, {"Ready", false, "Waiting", strings.Repeat("ä", 2000)}, {"Ready", true, "Done", ""}} {
		Set(&all, int64(i), begin.Add(time.Duration(i)*time.Minute), c)
		want := begin.Truncate(time.Second)
		if c.Is {
			want = want.Add(2 * time.Minute)
		}
		if got := all[0]; len(all) != 1 || !got.LastTransitionTime.Time.Equal(want) || got.ObservedGeneration != int64(i) || (got.Status == metav1.ConditionTrue) != c.Is || len(got.Message) > 2048 {
			t.Errorf("%d: %+v, want the transition %v", i, all, want)
		}
	}
}

// TestBounded: a text is cut between two characters and never longer than asked for.
func TestBounded(t *testing.T) {
	for most := 3; most < 20; most++ {
		if got := Bounded("aäöü€ and more", most); len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", most, got)
		}
	}
	if got := Bounded("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}
