package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/drainoracle"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

const (
	// recordVariable makes a run add its rows to the tables of all runs, from which "go run
	// ./tools/citest pages" makes those of docs/performance-lab.md.
	recordVariable = "DRA_STEWARD_RECORD"
	repository     = "../../../.."
	faultColumns   = "kills\tof the leader\tterminations\tcuts\trestarts of the API server"
	recordColumns  = "date\tcommit\tseed\tminutes\tpods\tevictions\t" + faultColumns + "\tundecided\tmissed\twrong\ttwice\tload\n"
	drainColumns   = "date\tcommit\tseed\tminutes\tdrains\tpods\tevictions\tdeletions\t" + faultColumns +
		"\twrong\ttwice\tlost\tbroken\trate\tlimit\tearly\tmissed\tcordon\tdrained\tload\n"
)

// record adds a row about evictions.
func record(t *testing.T, seed uint64, length time.Duration, r *result, f *faults) {
	t.Helper()
	row := slices.Concat([]any{len(r.verdicts), r.evictions}, f.counts(),
		[]any{r.counts[oracle.Undecided], r.counts[oracle.Missed], r.counts[oracle.Wrong], r.counts[oracle.Twice]})
	addRow(t, "evictions.tsv", recordColumns, seed, length, row)
}

// record adds a row about drains.
func (s *drainScene) record(t *testing.T, seed uint64, length time.Duration, f *faults) {
	t.Helper()
	evicted, deleted, _ := s.removed()
	row := slices.Concat([]any{len(s.h.Drains), len(s.h.Pods), evicted, deleted}, f.counts())
	counts := countKinds(s.checked)
	for _, kind := range drainoracle.Kinds() {
		row = append(row, counts[kind])
	}
	addRow(t, "drains.tsv", drainColumns, seed, length, row)
}

func (f *faults) counts() []any { return []any{f.kills, f.leaders, f.terminations, f.cuts, f.api} }

// addRow adds a row to a table, if that is wanted.
func addRow(t *testing.T, table, columns string, seed uint64, length time.Duration, values []any) {
	t.Helper()
	if os.Getenv(recordVariable) == "" {
		return
	}
	file := repository + "/test/results/" + table
	rows, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		rows, err = []byte(columns), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	row := slices.Concat([]any{time.Now().Format(time.DateOnly), commit(t), seed, fmt.Sprintf("%.0f", length.Minutes())}, values, []any{load()})
	rows = append(rows, strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(row...), "\n"), " ", "\t")+"\n"...)
	if err := os.WriteFile(file, rows, 0o644); err != nil {
		t.Fatal(err)
	}
}

// commit is the short name of the commit, with a plus sign if the tree has changes.
func commit(t *testing.T) string {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	name := git("rev-parse", "--short=8", "HEAD")
	if git("status", "--porcelain", "--", ".", ":!test/results", ":!docs", ":!CONTRIBUTING.md") != "" {
		name += "+"
	}
	return name
}

// load is the load average of the last five minutes, or unknown.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 1 {
		return fields[1]
	}
	return "unknown"
}
