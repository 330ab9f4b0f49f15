package cli_test

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"os"
	"strings"
	"testing"
)

// TestExplainPolicies: the code in a message leads to the text of docs/policies.md.
func TestExplainPolicies(t *testing.T) {
	run := func(args ...string) (string, int) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		return out.String(), code
	}
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	text, code := run("explain", "DRA-TOL-001")
	if code != 0 || !strings.HasPrefix(text, "## DRA-TOL-001\n") || !bytes.Contains(page, []byte(text)) {
		t.Errorf("code %d: %s", code, text)
	}
	if text, code := run("explain"); code != 0 || !strings.Contains(text, "DRA-TOL-001") || !strings.Contains(text, "claim-devices-max") {
		t.Errorf("code %d: %s", code, text)
	}
	if text, code := run("explain", "parameters-field"); code != 0 || !strings.Contains(text, "kubernetes-sigs/dranet v") {
		t.Errorf("no version of the drivers, code %d: %s", code, text)
	}
	if text, code := run("explain", "SITE-001"); code == 0 || !strings.Contains(text, "policy explain SITE-001 --policies FOLDER") {
		t.Errorf("code %d: %s", code, text)
	}
	if text, _ := run("__complete", "explain", "DRA-TOL-00"); !strings.Contains(text, "DRA-TOL-001\t") {
		t.Errorf("completion: %s", text)
	}
}
