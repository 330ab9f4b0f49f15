// Package longrun is what the campaigns share that run for as long as they are told: their length and
// seed, requests that survive restarts of the API server, and the rows of their results.
package longrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lengthVariable is how long a campaign runs, seedVariable what its choices follow from.
	lengthVariable = "DRA_STEWARD_CAMPAIGN"
	seedVariable   = "DRA_STEWARD_SEED"
	// recordVariable makes a run add its rows to the tables of all runs, from which "go run
	// ./tools/citest pages" makes those of test/results/performance-lab.md.
	recordVariable = "DRA_STEWARD_RECORD"
)

// A Run is one run of a campaign.
type Run struct {
	Length time.Duration
	Seed   uint64
}

// New returns the run that the environment asks for, and logs how to repeat it. If it asks for none,
// the test is skipped; what is what the campaign consists of, such as "random evictions".
func New(t *testing.T, what string) (r Run) {
	t.Helper()
	text := os.Getenv(lengthVariable)
	if text == "" {
		t.Skipf("%s take minutes: set %s=10m, or run make test-long, which runs them for 50m", what, lengthVariable)
	}
	var err error
	if r.Length, err = time.ParseDuration(text); err != nil {
		t.Fatalf("%s: %v", lengthVariable, err)
	}
	r.Seed = uint64(time.Now().UnixNano() % 1e6)
	if text := os.Getenv(seedVariable); text != "" {
		if r.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d %s=%s", seedVariable, r.Seed, lengthVariable, r.Length)
	return r
}

// Until returns when a time has come or ctx is done.
func Until(ctx context.Context, end time.Time) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Write sends a request until it is answered, also while the API server restarts, and returns how often
// it was sent again.
func Write(ctx context.Context, request func(context.Context) error) (again int64, err error) {
	var last error
	err = wait.PollUntilContextTimeout(context.WithoutCancel(ctx), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if last = request(ctx); last == nil {
			return true, nil
		}
		if !Passing(last) {
			return false, last
		}
		again++
		return false, nil
	})
	return again, errors.Join(err, last)
}

// Passing reports whether a request may succeed when it is repeated.
func Passing(err error) bool {
	var network net.Error
	return apierrors.IsConflict(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnexpectedServerError(err) ||
		errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// Record adds a row to a table of test/results, if that is wanted. Date, commit, seed and minutes precede
// the values, and the load follows them. The first row of the table has the names of the columns.
func (r Run) Record(t *testing.T, table string, values ...any) {
	t.Helper()
	if os.Getenv(recordVariable) == "" {
		return
	}
	root := git(t, ".", "rev-parse", "--show-toplevel")
	file := filepath.Join(root, "test/results", table)
	rows, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	row := slices.Concat([]any{time.Now().Format(time.DateOnly), commit(t, root), r.Seed, fmt.Sprintf("%.0f", r.Length.Minutes())}, values, []any{load()})
	rows = append(rows, strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(row...), "\n"), " ", "\t")+"\n"...)
	if err := os.WriteFile(file, rows, 0o644); err != nil {
		t.Fatal(err)
	}
}

// commit is the short name of the commit, with a plus sign if the tree has changes.
func commit(t *testing.T, root string) string {
	t.Helper()
	name := git(t, root, "rev-parse", "--short=8", "HEAD")
	if git(t, root, "status", "--porcelain", "--", ".", ":!test/results", ":!docs") != "" {
		name += "+"
	}
	return name
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// load is the load average of the last five minutes, or unknown.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 1 {
		return fields[1]
	}
	return "unknown"
}

// A Table has one row for each case of a campaign. A run replaces all of it.
type Table struct {
	name string
	rows [][]any
}

// NewTable returns a table of test/results with these columns.
func NewTable(name string, columns ...any) *Table { return &Table{name, [][]any{columns}} }

// Add adds a row.
func (b *Table) Add(values ...any) { b.rows = append(b.rows, values) }

// Write replaces the file, if that is wanted.
func (b *Table) Write(t *testing.T) {
	t.Helper()
	if os.Getenv(recordVariable) == "" {
		return
	}
	var text strings.Builder
	for _, row := range b.rows {
		for n, value := range row {
			if n > 0 {
				text.WriteByte('\t')
			}
			fmt.Fprint(&text, value)
		}
		text.WriteByte('\n')
	}
	if err := os.WriteFile(filepath.Join(git(t, ".", "rev-parse", "--show-toplevel"), "test/results", b.name), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
