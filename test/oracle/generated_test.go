package oracle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/test/oracle/campaign"
	"github.com/dra-steward/dra-steward/test/oracle/inputs"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// How many writes are generated, and from which seed, so that the same commit gives the
// same answer on every machine. "go run ./cmd/oracle" goes on with other seeds.
const (
	generatedSeed  = 1
	generatedCount = 120_000
	variedCount    = 20_000
	fuzzedCount    = 3_000 // each is written three times
)

// generatedTime ends the generation on a slow machine.
const generatedTime = 3 * time.Minute

// TestGenerated asks about generated writes.
func TestGenerated(t *testing.T) {
	generated(t, start(t))
}

func generated(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	c := campaign.Campaign{Oracle: o}
	count := uint64(generatedCount)
	if testing.Short() {
		count /= 8
	}
	if err := c.Generated(t.Context(), generatedSeed, 0, count, time.Now().Add(generatedTime)); err != nil {
		t.Fatal(err)
	}
	report(t, &c)
}

// TestVaried asks about what is accepted of the examples, the corpus and upstream's tables,
// with one value changed.
func TestVaried(t *testing.T) {
	varied(t, start(t))
}

func varied(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	cases, err := inputs.Examples()
	if err != nil {
		t.Fatal(err)
	}
	if public, err := inputs.Public(); err == nil {
		cases = append(cases, public...)
	}
	c := campaign.Campaign{Oracle: o}
	if err := c.Varied(t.Context(), generatedSeed, variedCount, cases); err != nil {
		t.Fatal(err)
	}
	report(t, &c)
}

// TestFuzzed asks about what upstream's fuzzer makes.
func TestFuzzed(t *testing.T) {
	fuzzed(t, start(t))
}

func fuzzed(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	c := campaign.Campaign{Oracle: o}
	if err := c.Fuzzed(t.Context(), generatedSeed, fuzzedCount); err != nil {
		t.Fatal(err)
	}
	report(t, &c)
}

func report(t *testing.T, c *campaign.Campaign) {
	t.Helper()
	if err := c.Shrink(); err != nil {
		t.Error(err)
	}
	var text strings.Builder
	c.Report(&text)
	t.Log(text.String())
	if len(c.Disagreements) > 0 {
		t.Errorf("%d disagreements, see above", len(c.Disagreements))
	}
	if share := float64(c.Accepted) / float64(max(1, c.Cases)); c.Cases > 50_000 && share < 0.3 {
		t.Errorf("only %.0f %% of the writes are accepted: too few to show what is denied in vain", 100*share)
	}
}

// TestDefaults holds our defaults to their promises on what is no product of chance.
func TestDefaults(t *testing.T) {
	cases, err := inputs.Examples()
	if err != nil {
		t.Fatal(err)
	}
	if public, err := inputs.Public(); err == nil {
		cases = append(cases, public...)
	}
	for i := range cases {
		cases[i].Full = true
	}
	c := campaign.Campaign{Oracle: start(t)}
	if err := c.Judge(cases); err != nil {
		t.Fatal(err)
	}
	report(t, &c)
}

// TestGates holds what our profiles know of feature gates against the minor itself.
func TestGates(t *testing.T) {
	checkGates(t, start(t))
}

func checkGates(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	gates := judge(t, o, []wire.Case{{ID: "gates", Op: wire.Gates}})[0].Gates
	minor := minorNumber(t, o.Minor())
	for _, gate := range apiserver.Gates() {
		theirs, exists := gates[string(gate)]
		if ours := (apiserver.Profile{Minor: minor}).Enabled(gate); ours != theirs.On {
			t.Errorf("%s in 1.%d: on is %t by default, we say %t", gate, minor, theirs.On, ours)
		}
		for _, on := range []bool{false, true} {
			possible := exists && (!theirs.Locked || theirs.On == on)
			profile := apiserver.Profile{Minor: minor, Gates: map[apiserver.Gate]bool{gate: on}}
			if err := profile.Validate(); on != theirs.On && (err == nil) != possible {
				t.Errorf("%s=%t in 1.%d: possible is %t, we say %v", gate, on, minor, possible, err)
			}
		}
	}
}

// TestOlderMinors does all that with the oracles of the older minors, which it builds
// first: minutes each. It runs with DRA_STEWARD_ORACLE=all.
func TestOlderMinors(t *testing.T) {
	if !all {
		t.Skip("set DRA_STEWARD_ORACLE=all to build and ask the oracles of the older minors; TestGolden has their recorded answers")
	}
	for _, version := range build.Versions() {
		if build.Minor(version) == oracle.Newest {
			continue
		}
		t.Run(version, func(t *testing.T) {
			o, err := oracle.Start(t.Context(), oracle.Options{Minor: version, Output: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			checkGates(t, o)
			found(t, o)
			generated(t, o)
			varied(t, o)
			fuzzed(t, o)
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
