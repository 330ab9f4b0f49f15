package main

import "path/filepath"

// patchColumns are those of the table of campaigns of patches in slices, to which
// test/envtest/materialize/campaign adds a row for each run. Its rows are never replaced.
var patchColumns = []string{"date", "commit", "seed", "minutes", "operations", "kills", "of the leader", "stops", "restarts of the API server",
	"writes", "not answered", "checks", "slices compared", "excused", "differences", "load"}

func readPatches(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/patches.tsv"), patchColumns...)
}
