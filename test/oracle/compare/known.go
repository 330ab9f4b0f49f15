package compare

import "regexp"

// A known difference is one whose cause has been understood and which waits for its
// correction. Delete the entry with the correction.
type known struct {
	// minors are those of Kubernetes 1 where it shows; none means all.
	minors []int
	side   Side
	rule   *regexp.Regexp
	// place matches the pattern of the place.
	place  *regexp.Regexp
	reason string
}

var knownDifferences = []known{
	{
		side: Surplus, rule: regexp.MustCompile("^taint-effect$"), place: regexp.MustCompile(`^spec\.taint\.effect$`),
		minors: []int{35, 36, 37},
		reason: "an unchanged effect of a DeviceTaintRule is not looked at again in an update; taint-effect has no Update that skips it",
	},
}

// knownReason returns why a difference is no news.
func knownReason(minor int, d Difference) (string, bool) {
	for _, k := range knownDifferences {
		if k.side == d.Side && k.in(minor) && k.rule.MatchString(d.Rule) && k.place.MatchString(Pattern(d.Place)) {
			return k.reason, true
		}
	}
	return "", false
}

func (k known) in(minor int) bool {
	for _, m := range k.minors {
		if m == minor {
			return true
		}
	}
	return len(k.minors) == 0
}
