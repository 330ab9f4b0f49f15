package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/test/oracle/campaign"
)

// recorded is the line of a page below which the table of runs is.
const recorded = "<!-- runs of make oracle RECORD=yes -->\n"

const header = `
| Kubernetes | seed | cases | accepted | problems found by both | found by one | date |
| --- | --- | --- | --- | --- | --- | --- |
`

// row is the row of a run.
func row(minor string, seed uint64, c *campaign.Campaign, on time.Time) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s |", minor, seed, c.Cases, c.Accepted, c.Agreed, c.Differences, on.Format(time.DateOnly))
}

// record writes the row of a run into the table of a page, in place of that of the same minor
// and seed. The newest minor is the first. Without a page it does nothing.
func record(page, row string) error {
	if page == "" {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := withRow(string(text), row)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(changed), 0o600)
}

func withRow(text, row string) (string, error) {
	before, after, found := strings.Cut(text, recorded)
	if !found {
		return "", fmt.Errorf("there is no line %q", strings.TrimSpace(recorded))
	}
	var rows []string
	if _, table, has := strings.Cut(after, header); has && strings.HasPrefix(after, header) {
		after = table
		for strings.HasPrefix(after, "| ") {
			var one string
			one, after, _ = strings.Cut(after, "\n")
			if runOf(one) != runOf(row) {
				rows = append(rows, one)
			}
		}
	}
	rows = append(rows, row)
	slices.SortFunc(rows, func(a, b string) int {
		a, b = runOf(a), runOf(b)
		if minorA, minorB := strings.Fields(a)[0], strings.Fields(b)[0]; minorA != minorB {
			return strings.Compare(minorB, minorA)
		}
		return strings.Compare(a, b)
	})
	return before + recorded + header + strings.Join(rows, "\n") + "\n" + after, nil
}

// runOf is the minor and the seed of a row.
func runOf(row string) string {
	cells := strings.Split(row, " | ")
	return strings.TrimPrefix(cells[0], "| ") + " " + cells[1]
}
