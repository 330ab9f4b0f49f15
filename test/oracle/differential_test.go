package oracle_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
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

// folder returns the folder of the corpus and skips the test if there is none.
func folder(t *testing.T) string {
	t.Helper()
	found, err := inputs.Folder()
	if errors.Is(err, corpus.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
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
	cases, err := inputs.Corpus(folder(t))
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

// TestTables: rows of upstream's own tests, of whatever kinds, functions and versions a file has.
func TestTables(t *testing.T) {
	rows, err := inputs.Tables(folder(t))
	if err != nil {
		t.Fatal(err)
	}
	byVersion := map[string][]inputs.Row{}
	for _, row := range rows {
		byVersion[row.Version] = append(byVersion[row.Version], row)
	}
	for version, rows := range byVersion {
		t.Run(version, func(t *testing.T) { holdTable(t, version, rows) })
	}
}

// holdTable compares what the strategy of that version says with what is recorded, and our rules
// with the strategy.
//
// A row does not say which of the two gate sets its test had: upstream's tests switch gates on
// for a case where they need them. So a row has to agree with its record under one of the sets;
// our rules have to agree with the strategy under both.
func holdTable(t *testing.T, version string, rows []inputs.Row) {
	minor := minorNumber(t, version)
	o := start(t)
	if newest := minorNumber(t, o.Minor()); minor != newest {
		older, err := oracle.Start(processContext, oracle.Options{Minor: fmt.Sprintf("1.%d", minor), Output: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		defer older.Close()
		o = older
	}
	unlike := make([][]string, len(rows))
	for _, off := range []string{"", "DRAFractionalCapacityRange"} {
		cases := make([]wire.Case, len(rows))
		for i, row := range rows {
			cases[i] = row.Case
			cases[i].Gates = map[string]bool{wire.AllDRA: true}
			if off != "" && minor >= 37 { // the first minor that has the gate
				cases[i].Gates[off] = false
			}
		}
		answers := judge(t, o, cases)
		hold(t, minor, cases, answers)
		for i, row := range rows {
			if one := unlikeRecord(row, answers[i].Errors); len(one) > 0 {
				unlike[i] = append(unlike[i], strings.Join(one, "\n"))
			}
		}
	}
	for i, row := range rows {
		if len(unlike[i]) == 2 {
			t.Errorf("%s: the strategy differs from the hand-written validation, -recorded +strategy, with all gates:\n%s\nwithout fractional ranges:\n%s", row.ID, unlike[i][0], unlike[i][1])
		}
	}
}

// A knownError is an error that only one side has, in rows with a text.
type knownError struct {
	errors *regexp.Regexp
	row    string
	reason string
}

// unlikeRecorded are the errors that validation as a whole has and the hand-written part of it
// has not, or the other way round, with the reason, in rows that have a text.
var unlikeRecorded = []knownError{
	{regexp.MustCompile(`^FieldValueRequired metadata\.namespace$`), "", "a namespaced object gets the namespace of the request"},
	{regexp.MustCompile(`^FieldValueNotSupported .*\.allocationMode$`), "", "the allocation mode is defaulted"},
	{regexp.MustCompile(`^FieldValueTooLong .*\.(data|parameters)$`), "", "what made the value too long is space that the recording has lost"},
	{regexp.MustCompile(`^FieldValueForbidden status\.reservedFor$`), `"deletionTimestamp"`, "a status update cannot set deletionTimestamp"},
	{regexp.MustCompile(`^FieldValueInvalid .*\.nodeAllocatableResources\[.*\]\.mapping$`), "", "declarative validation reports the mapping too"},
	{regexp.MustCompile(`^FieldValueNotSupported .*\.taints\[\d+\]\.effect$`), `"old"`, "declarative validation does not skip the unchanged taint"},
}

// unlikeRecord returns the errors of one side that are not known to differ.
func unlikeRecord(row inputs.Row, errors []wire.Error) (lines []string) {
	text := string(row.Object)
	if row.Old != nil {
		text += `"old"`
	}
	recorded, strategy := strings.Split(problems(row.Recorded), "\n"), strings.Split(problems(errors), "\n")
	for _, side := range []struct {
		sign        string
		errs, other []string
	}{{"-", recorded, strategy}, {"+", strategy, recorded}} {
		for _, line := range side.errs {
			known := slices.ContainsFunc(unlikeRecorded, func(known knownError) bool {
				return known.errors.MatchString(line) && strings.Contains(text, known.row)
			})
			if line != "" && !known && !slices.Contains(side.other, line) {
				lines = append(lines, side.sign+line)
			}
		}
	}
	return lines
}

func problems(errors []wire.Error) string {
	lines := map[string]bool{}
	for _, e := range errors {
		lines[e.Type+" "+e.Field] = true
	}
	return strings.Join(sorted(lines), "\n")
}
