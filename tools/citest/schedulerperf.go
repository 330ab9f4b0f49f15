package main

import (
	"path/filepath"
	"slices"
)

// schedulerPerf is the module that runs workloads of scheduler_perf, the benchmarks of
// Kubernetes for its scheduler.
const schedulerPerf = "test/schedulerperf"

// workloadColumns are those of the list of workloads.
var workloadColumns = []string{"topic", "case", "workload", "rounds"}

// performanceColumns are those of the table of results, in which test/schedulerperf replaces
// the row of a workload that it runs.
var performanceColumns = []string{"case", "nodes", "pods", "stock pods/s", "ours pods/s", "ratio", "runs", "spread", "commit", "date"}

func readWorkloads(root string) (*table, error) {
	return readTable(filepath.Join(root, schedulerPerf, "cases.tsv"), workloadColumns...)
}

// performanceSteps are a step for each workload. Only they have the build tag with which the
// API server is compiled into the tests.
func performanceSteps(root string, modules []string) (steps []step, _ error) {
	if !slices.Contains(modules, schedulerPerf) {
		return nil, nil
	}
	workloads, err := readWorkloads(root)
	if err != nil {
		return nil, err
	}
	for _, row := range workloads.rows {
		steps = append(steps, step{
			name: "scheduler_perf " + row[1] + "/" + row[2], dir: schedulerPerf, ownSettings: true,
			args: []string{"go", "test", "-json", "-count=1", "-timeout=60m", "-tags=schedulerperf", "-run=^TestByTurns$/^" + row[1] + "$/^" + row[2] + "$", "."},
		})
	}
	return steps, nil
}

// performanceTable is the table of a page: all workloads, with the results of those that have
// been recorded.
func performanceTable(root string) (string, error) {
	workloads, err := readWorkloads(root)
	if err != nil {
		return "", err
	}
	results, err := readTable(filepath.Join(root, "test/results/schedulerperf.tsv"), performanceColumns...)
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, workload := range workloads.rows {
		row := make([]string, len(performanceColumns))
		row[0], row[5] = workload[1]+"/"+workload[2], "not recorded"
		if i := slices.IndexFunc(results.rows, func(of []string) bool { return of[0] == row[0] }); i >= 0 {
			row = slices.Clone(results.rows[i])
			row[8] = "`" + row[8] + "`"
		}
		rows = append(rows, row)
	}
	return markdown(performanceColumns, rows), nil
}
