//go:build schedulerperf

package schedulerperf_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testrecord"
)

// The schedulers that work by turns.
const (
	stock = "stock"
	ours  = "ours"
)

// target is the part of the pods per second of stock that ours has to schedule.
const target = 0.95

// TestByTurns compares the schedulers: stock, ours, ours, stock in each round, each of them in a
// process of its own that starts its own etcd and API server.
func TestByTurns(t *testing.T) {
	for _, w := range readWorkloads(t) {
		t.Run(w.String(), func(t *testing.T) {
			nodes, pods := w.size(t)
			r := &results{}
			for range w.rounds {
				r.stock = append(r.stock, w.measure(t, stock))
				r.ours = append(r.ours, w.measure(t, ours), w.measure(t, ours))
				r.stock = append(r.stock, w.measure(t, stock))
			}
			t.Logf("%d nodes, %d pods: %s", nodes, pods, r)
			record(t, r.row(w, nodes, pods))
			if ratio := r.ratio(); ratio < target {
				t.Errorf("ours schedules %.2f times as many pods per second as stock, want at least %.2f", ratio, target)
			}
		})
	}
}

// measure returns how many pods per second a scheduler schedules.
func (w workload) measure(t *testing.T, which string) float64 {
	t.Helper()
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := []string{"BenchmarkPerfScheduling", w.topic, which, w.testCase, w.name}
	command := exec.CommandContext(t.Context(), program, "-test.run=^$", "-test.bench=^"+strings.Join(path, "$/^")+"$", "-test.benchtime=1x",
		"-test.timeout=30m", "-perf-scheduling-label-filter=", "-data-items-dir="+dir)
	command.Env = append(os.Environ(), "ARTIFACTS="+dir) // without it all that the API server logs is printed
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v; the end of its output:\n%s", command, err, out[max(0, len(out)-10000):])
	}
	average, err := throughput(dir)
	if err != nil {
		t.Fatalf("%v; the end of the output:\n%s", err, out[max(0, len(out)-10000):])
	}
	t.Logf("%s: %.1f pods/s", which, average)
	return average
}

// record puts a row into the table of results, if that is wanted.
func record(t *testing.T, row []string) {
	t.Helper()
	if !testrecord.Wanted() {
		return
	}
	if err := replace(testrecord.File(t, "schedulerperf.tsv"), append(row, testrecord.Commit(t), time.Now().Format(time.DateOnly))); err != nil {
		t.Fatal(err)
	}
}
