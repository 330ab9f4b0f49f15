package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestLargeDump: commands read the list of all objects of a cluster, which is larger than any manifest.
func TestLargeDump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.json")
	dump := fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu", "annotations": {"large": %q}}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dra-steward-history-0"}}]}`, strings.Repeat("x", 17<<20))
	if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"audit"}, {"report"}, {"devices"}, {"impact", "rule"}, {"history", "gpu.example.com"}, {"whatif", "upgrade", "--to", "1.37"}} {
		t.Run(args[0], func(t *testing.T) {
			var out, errs bytes.Buffer
			cli.Run(t.Context(), append(args, "--from-files", file), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			if all := out.String() + errs.String(); strings.Contains(all, "larger than") || strings.Contains(all, "unknown flag") {
				t.Errorf("%.300s", all)
			}
		})
	}
}

// TestEmptyDump: audit answers files without an object to audit with exit code 3, unless it is told that there is none.
func TestEmptyDump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(file, []byte(`{"apiVersion": "v1", "kind": "List", "items": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"", "team-a"} {
		for _, allowed := range []bool{false, true} {
			var out, errs bytes.Buffer
			code := cli.Run(t.Context(), []string{"audit", "--from-files", file, "--namespace", namespace, fmt.Sprintf("--allow-empty=%t", allowed)}, cmdutil.Streams{Out: &out, Err: &errs})
			want := cmdutil.ExitUnknown
			if allowed {
				want = cmdutil.ExitClean
			}
			if code != want || !allowed && !strings.Contains(errs.String(), "if that is right, set --allow-empty") {
				t.Errorf("namespace %q, --allow-empty=%t: %d %s%s", namespace, allowed, code, &out, &errs)
			}
		}
	}
}

// TestNamespacesOfFiles: an exemption for namespaces with a label counts for the namespaces that files have, as for those of a
// cluster.
func TestNamespacesOfFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := write("site.yaml", `apiVersion: dra-steward.io/v1alpha1
kind: StewardConfiguration
protectedLabels: {keys: [example.com/tier]}
exemptions:
- rules: [DRA-TOL-001]
  namespaceSelector: {matchLabels: {example.com/tier: platform}}
  reason: the platform team knows what it does
  expires: 2099-06-30T00:00:00Z
`)
	claim := write("claim.yaml", `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, namespace: team-a}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, tolerations: [{operator: Exists}]}}]}}
`)
	labelled := write("namespace.yaml", `apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {example.com/tier: platform}}
`)
	for _, args := range []string{"audit --config CONFIG -o json --from-files CLAIM", "lint --config CONFIG --policies library --existing CLAIM -o json CLAIM"} {
		for _, with := range []bool{false, true} {
			files := claim
			if with {
				files += "," + labelled
			}
			line := strings.NewReplacer("CONFIG", config, "--from-files CLAIM", "--from-files "+files, "--existing CLAIM", "--existing "+strings.ReplaceAll(files, ",", " --existing "), "CLAIM", claim).Replace(args)
			var out, errs bytes.Buffer
			cli.Run(t.Context(), strings.Fields(line), cmdutil.Streams{Out: &out, Err: &errs})
			if found := strings.Contains(out.String(), "DRA-TOL-001"); found == with {
				t.Errorf("%s: finding: %t\n%.600s%s", line, found, &out, &errs)
			}
		}
	}
}
