package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/test/oracle/campaign"
	"github.com/dra-steward/dra-steward/test/oracle/compare"
)

// TestRecord: a run replaces the row of the same minor and seed, and nothing else of the page.
func TestRecord(t *testing.T) {
	run := func(minor string, seed uint64, cases int) string {
		return row(minor, seed, &campaign.Campaign{Tally: compare.Tally{Cases: cases, Accepted: 2, Agreed: 3}}, time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	}
	text := "# Page\n\n" + recorded + "\n## Next\n"
	for _, one := range []string{run("1.36", 1, 10), run("1.37", 2, 20), run("1.37", 1, 30), run("1.36", 1, 40)} {
		var err error
		if text, err = withRow(text, one); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Page\n\n" + recorded + header + `| 1.37 | 1 | 30 | 2 | 3 | 0 | 2026-11-23 |
| 1.37 | 2 | 20 | 2 | 3 | 0 | 2026-11-23 |
| 1.36 | 1 | 40 | 2 | 3 | 0 | 2026-11-23 |

## Next
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := withRow("# Page\n", run("1.37", 1, 1)); err == nil {
		t.Error("a page without the line is taken")
	}
}

// TestPage: the page has the table, and in none of its rows one side alone found a problem.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../../test/results/performance-lab.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), recorded+header)
	if !found {
		t.Fatal("no table of runs")
	}
	rows, _, _ := strings.Cut(table, "\n\n")
	for line := range strings.SplitSeq(strings.TrimSpace(rows), "\n") {
		if cells := strings.Split(strings.Trim(line, "| "), " | "); len(cells) != 7 || cells[5] != "0" {
			t.Errorf("%s: one side found problems alone, or it is not a row", line)
		}
	}
}
