package oracle_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/campaign"
	"github.com/dra-steward/dra-steward/test/oracle/compare"
	"github.com/dra-steward/dra-steward/test/oracle/inputs"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

// newest starts the oracle of the newest minor, once for all tests.
var newest = sync.OnceValues(func() (*oracle.Oracle, error) {
	return oracle.Start(processContext, oracle.Options{Output: os.Stderr})
})

func start(t *testing.T) *oracle.Oracle {
	t.Helper()
	o, err := newest()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// corpus returns the folder of the corpus and skips the test if there is none.
func corpus(t *testing.T) string {
	t.Helper()
	folder, err := inputs.Folder()
	if errors.Is(err, inputs.ErrNoCorpus) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func judge(t *testing.T, o *oracle.Oracle, cases []wire.Case) []wire.Answer {
	t.Helper()
	answers, err := o.Judge(cases)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// hold compares our rules with the answers and reports every difference.
func hold(t *testing.T, minor int, cases []wire.Case, answers []wire.Answer) {
	t.Helper()
	var tally compare.Tally
	for i, c := range cases {
		outcome, err := compare.Rules(c, answers[i], minor)
		if err != nil {
			t.Error(err)
			continue
		}
		tally.Add(answers[i], outcome)
		dropped, err := compare.Drops(c, answers[i], minor)
		if err != nil {
			t.Error(err)
		}
		for _, difference := range slices.Concat(outcome.Differences, dropped) {
			t.Errorf("%s: %s\n%s at %s: %s", c.ID, difference.Signature(), difference.Type, difference.Place, difference.Detail)
		}
	}
	t.Logf("%s", &tally)
}

func TestCorpus(t *testing.T) {
	cases, err := inputs.Corpus(corpus(t))
	if err != nil {
		t.Fatal(err)
	}
	hold(t, 37, cases, judge(t, start(t), cases))
}

func TestExamples(t *testing.T) {
	cases, err := inputs.Examples()
	if err != nil {
		t.Fatal(err)
	}
	hold(t, 37, cases, judge(t, start(t), cases))
}

// TestFound: what was found once does not come back.
func TestFound(t *testing.T) {
	found(t, start(t))
}

func found(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	cases, err := inputs.Found()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range cases {
		t.Run(strings.TrimPrefix(one.ID, "found/"), func(t *testing.T) {
			c := campaign.Campaign{Oracle: o}
			if err := c.Judge([]wire.Case{one}); err != nil {
				t.Fatal(err)
			}
			for _, d := range c.Disagreements {
				t.Error(d)
			}
		})
	}
}

func TestTables(t *testing.T) {
	rows, err := inputs.Tables(corpus(t))
	if err != nil {
		t.Fatal(err)
	}
	cases := make([]wire.Case, len(rows))
	for i, row := range rows {
		cases[i] = row.Case
	}
	answers := judge(t, start(t), cases)
	hold(t, 37, cases, answers)
	for i, row := range rows {
		reason, known := unlikeRecorded[row.ID]
		switch same := problems(row.Recorded) == problems(answers[i].Errors); {
		case !same && !known:
			t.Errorf("%s: the strategy says\n%s\nand the hand-written validation alone\n%s", row.ID, problems(answers[i].Errors), problems(row.Recorded))
		case same && known:
			t.Errorf("%s: the same as recorded, though %q was expected to make a difference", row.ID, reason)
		}
	}
}

// unlikeRecorded are the rows of upstream's tables for which validation as a whole
// says something else than the hand-written part of it, with the reason.
var unlikeRecorded = map[string]string{
	"tables/45":  "a namespaced object gets the namespace of the request",
	"tables/54":  "the allocation mode is defaulted",
	"tables/72":  "what made the data too long is space that the recording has lost",
	"tables/83":  "what made the data too long is space that the recording has lost",
	"tables/88":  "what made the parameters too long is space that the recording has lost",
	"tables/102": "a status update cannot set deletionTimestamp",
	"tables/121": "a namespaced object gets the namespace of the request",
	"tables/143": "declarative validation reports the mapping too",
	"tables/218": "declarative validation does not skip the taint",
	"tables/219": "the gate of fractional ranges is on",
	"tables/222": "the gate of fractional ranges is on",
}

func problems(errors []wire.Error) string {
	lines := map[string]bool{}
	for _, e := range errors {
		lines[e.Type+" "+e.Field] = true
	}
	return strings.Join(sorted(lines), "\n")
}
