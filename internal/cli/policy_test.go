package cli_test

import (
	"bytes"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicyPage fails when docs/policies.md says something else than the policies.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := cli.Run(t.Context(), []string{"policy", "docs"}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}); code != cmdutil.ExitClean {
		t.Fatalf("exit code %d", code)
	}
	if !bytes.Equal(page, out.Bytes()) {
		t.Error("docs/policies.md is out of date: go run ./cmd/dra-steward policy docs > docs/policies.md")
	}
}

const brokenPolicy = `# METADATA
# title: Broken
# description: Broken.
# custom:
#   code: SITE-009
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [requests]
package dra.custom.broken

deny contains {"paths": [], "message": "x"} if `

// TestBrokenPolicies: commands that evaluate policies report a policy that fails or does
// not finish, and end with exit code 2.
func TestBrokenPolicies(t *testing.T) {
	claim := filepath.Join(t.TempDir(), "claim.yaml")
	putFile(t, claim, `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a", "namespace": "b"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}`)
	endless := "{\n\tsome a in digits\n\tsome b in digits\n\tsome c in digits\n\tsome d in digits\n\tsome e in digits\n\tsome f in digits\n\tsome g in digits\n\tsome h in digits\n\ta + b + c + d + e + f + g + h < 0\n}\n\ndigits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
	for name, tt := range map[string]struct{ rule, says string }{
		"error":   {"to_number(input.kind) > 1\n", "to_number"},
		"timeout": {endless, "too expensive to check"},
	} {
		folder := t.TempDir()
		putFile(t, filepath.Join(folder, "policy.rego"), brokenPolicy+tt.rule)
		for _, args := range [][]string{{"policy", "eval", claim}, {"policy", "bench", "--time", "1ms", claim}, {"audit", "--from-files", claim}} {
			var out, errs bytes.Buffer
			code := cli.Run(t.Context(), append(args, "--policies", folder), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			if code != cmdutil.ExitFailed || !strings.Contains(out.String()+errs.String(), tt.says) && args[1] != "bench" {
				t.Errorf("%s, %v: exit code %d: %s %s", name, args, code, &out, &errs)
			}
		}
	}
	folder := t.TempDir()
	putFile(t, filepath.Join(folder, "policy.rego"), brokenPolicy+"input.kind == \"x\"\n")
	putFile(t, filepath.Join(folder, "policy_test.rego"), "package dra.custom.broken_test\n\ntest_a if to_number(\"abc\") > 1\n")
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"policy", "test", "--policies", folder}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != cmdutil.ExitFailed {
		t.Errorf("test: exit code %d: %s %s", code, &out, &errs)
	}
}

func putFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
