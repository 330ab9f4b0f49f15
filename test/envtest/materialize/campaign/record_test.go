package campaign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	// recordVariable makes a run add its row to the table of all runs, from which "go run
	// ./tools/citest pages" makes that of docs/performance-lab.md.
	recordVariable = "DRA_STEWARD_RECORD"
	repository     = "../../../.."
	records        = repository + "/test/results/patches.tsv"
	recordColumns  = "date\tcommit\tseed\tminutes\toperations\tkills\tof the leader\tstops\trestarts of the API server\twrites\tnot answered\tchecks\tslices compared\texcused\tdifferences\tload\n"
)

// recordRun adds a row.
func recordRun(t *testing.T, seed uint64, length time.Duration, c *campaign) {
	t.Helper()
	if os.Getenv(recordVariable) == "" {
		return
	}
	rows, err := os.ReadFile(records)
	if errors.Is(err, fs.ErrNotExist) {
		rows, err = []byte(recordColumns), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	row := []any{time.Now().Format(time.DateOnly), commit(t), seed, fmt.Sprintf("%.0f", length.Minutes()), c.w.operations(), c.faults.kills, c.faults.leaders,
		c.faults.stops, len(c.faults.restarts), c.audit.writes, c.audit.failedOpen, c.checks, c.compared, c.excused, c.differences, load()}
	rows = append(rows, strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(row...), "\n"), " ", "\t")+"\n"...)
	if err := os.WriteFile(records, rows, 0o644); err != nil {
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
