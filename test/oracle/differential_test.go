package oracle_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dra-steward/dra-steward/test/oracle"
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

// hold compares our rules with the answers and reports every difference that is not
// known.
func hold(t *testing.T, minor int, cases []wire.Case, answers []wire.Answer) {
	t.Helper()
	var tally compare.Tally
	for i, c := range cases {
		outcome, err := compare.Rules(c, answers[i], minor, compare.Covered)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, difference := range tally.Add(minor, answers[i], outcome) {
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
