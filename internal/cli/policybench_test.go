package cli_test

import (
	"bytes"
	"encoding/json"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"strings"
	"testing"
)

func ran(t *testing.T, args ...string) (out, problems string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), args, cmdutil.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

type benched struct {
	Code          string
	Writes, Asked int
	Microseconds  float64
	Steps         int
}

// TestPolicyBench: every policy has a row, what is asked has a price, and steps do not
// depend on the machine.
func TestPolicyBench(t *testing.T) {
	var steps []map[string]int
	for range 2 {
		out, problems, code := ran(t, "policy", "bench", "-o", "json", "--time", "1ms")
		var rows []benched
		if err := json.Unmarshal([]byte(out), &rows); err != nil || code != cmdutil.ExitClean {
			t.Fatal(err, code, problems)
		}
		of := map[string]int{}
		for _, row := range rows {
			of[row.Code] = row.Steps
			if row.Asked > row.Writes || row.Asked > 0 && row.Microseconds <= 0 {
				t.Errorf("%+v", row)
			}
		}
		steps = append(steps, of)
		if len(rows) < 23 || of["DRA-TOL-001"] == 0 || of["DRA-CLAIM-001"] != 0 {
			t.Errorf("%+v", rows)
		}
	}
	for code, n := range steps[0] {
		if steps[1][code] != n {
			t.Errorf("%s: %d steps, then %d", code, n, steps[1][code])
		}
	}
}

func TestPolicyBenchOfFiles(t *testing.T) {
	out, problems, code := ran(t, "policy", "bench", "--time", "1ms", "../../examples/denied/too-many-tolerations.yaml")
	if code != cmdutil.ExitClean || !strings.Contains(out, "together") || !strings.Contains(out, "DRA-RULE-001       0") {
		t.Errorf("%d %s%s", code, out, problems)
	}
	if _, problems, code := ran(t, "policy", "bench", "../../examples/parameters/gpu.acme.example.com"); code != cmdutil.ExitFailed || !strings.Contains(problems, "nothing to evaluate") {
		t.Errorf("%d %s", code, problems)
	}
	if _, problems, code := ran(t, "policy", "bench", "--time", "0s"); code != cmdutil.ExitFailed || !strings.Contains(problems, "--time") {
		t.Errorf("%d %s", code, problems)
	}
}

// TestAuditOfFiles: audit without a cluster, and what it refuses.
func TestAuditOfFiles(t *testing.T) {
	const file = "../../examples/denied/too-many-tolerations.yaml"
	first, _, code := ran(t, "audit", "--from-files", file, "-o", "json")
	second, _, _ := ran(t, "audit", "--from-files", file, "-o", "json")
	if code != cmdutil.ExitFindings || first != second || !strings.Contains(first, `"code": "DRA-TOL-004"`) {
		t.Errorf("%d\n%s\n%s", code, first, second)
	}
	if out, problems, code := ran(t, "audit", "--from-files", file, "--raise", "DRA-CLAIM-001"); code != cmdutil.ExitClean || out != "1 object checked, none would be refused\n" {
		t.Errorf("%d %s%s", code, out, problems)
	}
	for want, args := range map[string][]string{
		"cannot be read twice":             {"--from-files", "-"},
		"neither a policy nor a rule":      {"--from-files", file, "--raise", "DRA-X-1"},
		"must be one of text, sarif, json": {"-o", "xml"},
		"no such file":                     {"--from-files", "missing.yaml"},
	} {
		if _, problems, code := ran(t, append([]string{"audit"}, args...)...); code != cmdutil.ExitFailed || !strings.Contains(problems, want) {
			t.Errorf("%v: %d %s", args, code, problems)
		}
	}
}
