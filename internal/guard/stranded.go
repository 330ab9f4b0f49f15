package guard

import (
	"fmt"

	"github.com/dra-steward/dra-steward/internal/plural"
)

// A Stranded is how many of the affected pods do not land again once they are evicted.
type Stranded struct {
	// Pods is their number, Names are the first of them with the reason of each, as in
	// "team-a/train-0 (constraint numaNode)".
	Pods  int
	Names []string
	// NotComputed says why that is not known; empty if it is.
	NotComputed string
	// Limited is true if the site has a threshold for it.
	Limited bool
}

// Known reports whether the number is known.
func (s *Stranded) Known() bool { return s != nil && s.NotComputed == "" }

// Of says in one line how many of so many pods that are; empty for nil.
func (s *Stranded) Of(pods int) string {
	switch {
	case s == nil || pods == 0:
		return ""
	case s.NotComputed != "":
		return "; it is unknown whether they land again: " + s.NotComputed
	case s.Pods == 0 && pods == 1:
		return "; it lands again"
	case s.Pods == 0:
		return "; all of them land again"
	case s.Pods == 1:
		return "; 1 pod does not land again: " + plural.List(s.Names, someNames, s.Pods)
	}
	return fmt.Sprintf("; %s do not land again: %s", plural.Of(s.Pods, "pod"), plural.List(s.Names, someNames, s.Pods))
}
