package evictor

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The parts of a mode, as one word for each of ordinary and extended.
const (
	nothing    = "none none"
	supplement = "none missed"
	everything = "all all"
)

func words(c classShares) string { return c.Ordinary.String() + " " + c.Extended.String() }

// TestCoexistence runs histories. A letter is what is seen, ten seconds after the last: R a
// sign for rules, S one for slices, X one for extended resources, r and s a probe without an
// answer, x a pod with extended resources that is left, . nothing.
func TestCoexistence(t *testing.T) {
	for name, tt := range map[string]struct{ story, slices, rules string }{
		"nothing is known":                     {"", nothing, nothing},
		"one probe is not enough":              {"r", nothing, nothing},
		"two are not":                          {"r.....r", nothing, nothing},
		"three over two minutes are":           {"r.....r.....r", nothing, everything},
		"three in a hurry are one":             {"rrr", nothing, nothing},
		"those in between do not count":        {"rrrrrrrrrrrr", nothing, nothing},
		"many in a hurry, until two minutes":   {"rrrrrrrrrrrrr", nothing, everything},
		"rules answer: it has slices, too":     {"R", supplement, supplement},
		"slices are seen: nothing about rules": {"S", supplement, nothing},
		"1.36: slices are evicted, rules not":  {"r.S...r.....r", supplement, everything},
		"neither is evicted for":               {"rs.....rs.....rs", everything, everything},
		"the first sign counts at once":        {"rs.....rs.....rsR", supplement, supplement},
		"a sign begins the count again":        {"r.....r.....Rr.....r", supplement, supplement},
		"it is switched off later":             {"Rr.....r.....r", supplement, everything},
		"a failover of a minute":               {"Rr.....r.R", supplement, supplement},
		"upgrade from 1.36 to 1.37":            {"r.S...r.....rR", supplement, supplement},
		"it evicts extended resources":         {"RX", nothing, nothing},
		"extended resources in slices only":    {"SX", nothing, nothing},
		"they are seen first":                  {"X", nothing, nothing},
		"a pod with them is left":              {"RXx", nothing, nothing},
		"pods with them are left":              {"RXx.....x.....x", supplement, supplement},
		"they are left, and seen again":        {"RXx.....x.....xX", nothing, nothing},
		"they were never seen":                 {"Rx.....x.....x", supplement, supplement},
		"it is gone altogether":                {"RXrs.....rs.....rs", everything, everything},
		"downgrade, slices are still seen":     {"Rr.....r.S...r", supplement, everything},
	} {
		t.Run(name, func(t *testing.T) {
			var c inTreeState
			now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
			for _, letter := range tt.story {
				now = now.Add(10 * time.Second)
				see(&c, letter, now)
			}
			if got := c.shares(); words(got.Slices) != tt.slices || words(got.Rules) != tt.rules {
				t.Errorf("slices %s, rules %s; want %s, %s", words(got.Slices), words(got.Rules), tt.slices, tt.rules)
			}
		})
	}
}

func see(c *inTreeState, letter rune, at time.Time) {
	switch letter {
	case 'R':
		c.seen(fromRules)
	case 'S':
		c.seen(fromSlices)
	case 'X':
		c.seenExtended()
	case 'x':
		c.unansweredExtended(fromRules, at)
		c.unansweredExtended(fromSlices, at)
	case 'r':
		c.unanswered(fromRules, at)
	case 's':
		c.unanswered(fromSlices, at)
	}
}

// TestCoexistenceReference compares random histories with a computation from the whole
// history: absent only if the last sign is older than three probes, each a minute after the
// one before, over two minutes; and a controller that was seen and never reported absent is
// present.
func TestCoexistenceReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var c inTreeState
		var probes []time.Time
		seen, gone := false, false
		now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
		for range random.IntN(40) {
			now = now.Add(time.Duration(random.IntN(50)) * time.Second)
			switch letter := []rune("Rrrrrrs")[random.IntN(7)]; letter {
			case 'R':
				see(&c, letter, now)
				probes, seen, gone = nil, true, false
			case 'r':
				see(&c, letter, now)
				if n := len(probes); n == 0 || now.Sub(probes[n-1]) >= time.Minute {
					probes = append(probes, now)
				}
				gone = gone || len(probes) >= 3 && now.Sub(probes[0]) >= 2*time.Minute
			default:
				see(&c, letter, now)
			}
			want := unknown
			switch {
			case gone:
				want = absent
			case seen:
				want = present
			}
			if got := c.presence(fromRules); got != want {
				t.Fatalf("%s, want %s after probes %v", got, want, probes)
			}
		}
	}
}
