package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// A Tally counts outcomes. The zero value is ready for use; it is not safe for
// concurrent use.
type Tally struct {
	Cases, Accepted, Panics, Unreadable int
	// Agreed and Differences count problems.
	Agreed, Differences int
	// Uncovered counts, by kind, type and pattern of the place, the API server's
	// errors that no rule of ours answers for yet.
	Uncovered map[string]int
	// Known counts the differences that are known, by their reason.
	Known map[string]int
}

// Add counts an outcome and returns those of its differences that are not known.
func (t *Tally) Add(minor int, answer wire.Answer, outcome Outcome) (unknown []Difference) {
	if t.Uncovered == nil {
		t.Uncovered, t.Known = map[string]int{}, map[string]int{}
	}
	t.Cases++
	switch {
	case answer.Panic != "":
		t.Panics++
	case answer.DecodeError != "":
		t.Unreadable++
	case answer.Accepted():
		t.Accepted++
	}
	t.Agreed += outcome.Agreed
	for _, difference := range outcome.Differences {
		if reason, known := knownReason(minor, difference); known {
			t.Known[reason]++
			continue
		}
		t.Differences++
		unknown = append(unknown, difference)
	}
	for _, e := range outcome.Uncovered {
		t.Uncovered[fmt.Sprintf("%-21s %-22s %s", e.Kind, strings.TrimPrefix(e.Type, "FieldValue"), Pattern(e.Place))]++
	}
	return unknown
}

// String is a table for people.
func (t *Tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cases: %d accepted, %d unreadable, %d crashed the API server; %d problems found by both sides, %d by one",
		t.Cases, t.Accepted, t.Unreadable, t.Panics, t.Agreed, t.Differences)
	section(&b, "known differences", t.Known)
	section(&b, "errors of the API server that no rule answers for yet", t.Uncovered)
	return b.String()
}

func section(b *strings.Builder, title string, counts map[string]int) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:", title)
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for _, name := range names {
		fmt.Fprintf(b, "\n%8d  %s", counts[name], name)
	}
}
