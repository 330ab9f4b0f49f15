package main

import (
	"path/filepath"
	"strconv"
)

// evictionColumns are those of the table of eviction campaigns, to which test/envtest/eviction/campaign
// adds a row for each run. Its rows are never replaced.
var evictionColumns = []string{"date", "commit", "seed", "minutes", "pods", "evictions", "kills", "of the leader", "terminations", "cuts",
	"restarts of the API server", "undecided", "missed", "wrong", "twice", "load"}

func readEvictions(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/evictions.tsv"), evictionColumns...)
}

// evictionTable is the table of the page.
func evictionTable(t *table) string { return campaignTable(t, 3, 14) }

// campaignTable has all runs, and their sums: from the first to the last column that has one.
func campaignTable(t *table, first, last int) string {
	sums := make([]int, len(t.columns))
	var rows [][]string
	for _, row := range t.rows {
		shown := append([]string{row[0], "`" + row[1] + "`"}, row[2:]...)
		for i := first; i <= last; i++ {
			n, _ := strconv.Atoi(row[i])
			sums[i] += n
		}
		rows = append(rows, shown)
	}
	all := make([]string, len(t.columns))
	all[0] = "all"
	for i := first; i <= last; i++ {
		all[i] = strconv.Itoa(sums[i])
	}
	return markdown(t.columns, append(rows, all))
}
