package compare

import (
	"fmt"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// A Tally counts outcomes. The zero value is ready for use; it is not safe for
// concurrent use.
type Tally struct {
	Cases, Accepted, Panics, Unreadable int
	// Agreed and Differences count problems.
	Agreed, Differences int
}

// Add counts an outcome.
func (t *Tally) Add(answer wire.Answer, outcome Outcome) {
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
	t.Differences += len(outcome.Differences)
}

// String is a line for people.
func (t *Tally) String() string {
	return fmt.Sprintf("%d cases: %d accepted, %d unreadable, %d crashed the API server; %d problems found by both sides, %d by one",
		t.Cases, t.Accepted, t.Unreadable, t.Panics, t.Agreed, t.Differences)
}
