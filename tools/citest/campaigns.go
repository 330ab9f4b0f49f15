package main

import (
	"path/filepath"
	"slices"
	"strconv"
)

// evictionColumns and drainColumns are those of the tables of campaigns, to which test/envtest/eviction/campaign
// adds a row for each run. Their rows are never replaced.
var (
	evictionColumns = slices.Concat([]string{"date", "commit", "seed", "minutes", "pods", "evictions"}, faultColumns,
		[]string{"undecided", "missed", "wrong", "twice", "load"})
	drainColumns = slices.Concat([]string{"date", "commit", "seed", "minutes", "drains", "pods", "evictions", "deletions"}, faultColumns,
		[]string{"wrong", "twice", "lost", "broken", "rate", "limit", "early", "missed", "cordon", "drained", "load"})
	faultColumns = []string{"kills", "of the leader", "terminations", "cuts", "restarts of the API server"}
)

func readEvictions(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/evictions.tsv"), evictionColumns...)
}

func readDrains(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/drains.tsv"), drainColumns...)
}

// patchColumns are those of the table of campaigns of patches in slices, to which
// test/envtest/materialize/campaign adds a row for each run. Its rows are never replaced.
var patchColumns = []string{"date", "commit", "seed", "minutes", "operations", "kills", "of the leader", "stops", "restarts of the API server",
	"writes", "not answered", "checks", "slices compared", "excused", "differences", "load"}

func readPatches(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/patches.tsv"), patchColumns...)
}

// campaignTable is the table of a page: all runs, and their sums.
func campaignTable(t *table) string {
	first, last := 3, len(t.columns)-2 // the columns that have a sum
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
