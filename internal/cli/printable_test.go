package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// hostileObjects have escape sequences in every text that a tenant or a driver sets.
const hostileObjects = `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "node-1\e[2J"}
spec:
  driver: "gpu.example.com\e]0;title\a"
  pool: {name: "node-1\e[1A", generation: 1, resourceSliceCount: 1}
  nodeName: "node-1\e[31m"
  devices:
  - name: "gpu-0\r\e[K"
    attributes: {"model\e[8m": {string: "A100\u202egpu\u009b31m"}}
    capacity: {"memory\e[8m": {value: 80Gi}}
    taints: [{key: "example.com/lost\e[8m", value: "yes\e[8m", effect: NoExecute}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim\e[8m", namespace: "team\e[8m", uid: "1", annotations: {note: "\e[8m"}}
spec: {devices: {requests: [{name: "gpu\e[8m", exactly: {deviceClassName: "gpu\e[8m", tolerations: [{key: "\e[8m"}]}}]}}
status:
  allocation: {devices: {results: [{request: "gpu\e[8m", driver: "gpu.example.com\e]0;title\a", pool: "node-1\e[1A", device: "gpu-0\r\e[K"}]}}
  reservedFor: [{resource: pods, name: "pod\e[8m", uid: "2"}]
---
apiVersion: v1
kind: Pod
metadata: {name: "pod\e[8m", namespace: "team\e[8m", uid: "2"}
spec:
  containers: [{name: "main\e[8m", image: "x\e[8m", resources: {claims: [{name: "gpu\e[8m"}]}}]
  resourceClaims: [{name: "gpu\e[8m", resourceClaimName: "claim\e[8m"}]
status: {phase: Running, conditions: [{type: PodScheduled, status: "False", reason: "Unschedulable\e[8m", message: "no\e[8m"}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: "rule\e[8m"}
spec: {deviceSelector: {driver: "gpu.example.com\e]0;title\a"}, taint: {key: "example.com/broken\e[8m", effect: NoExecute}}
`

// TestPrintable: no command writes control characters of a tenant or driver to the terminal.
func TestPrintable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "objects\x1b[8m.yaml")
	if err := os.WriteFile(file, []byte(hostileObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	pod, team := "pod/pod\x1b[8m", "-n=team\x1b[8m"
	for _, args := range [][]string{
		{"lint", file}, {"lint", "-o", "json", file}, {"lint", "-o", "github", file}, {"lint", "-o", "sarif", file}, {"lint", "--fix", "--diff", file},
		{"devices", "--from-files", file}, {"devices", "--from-files", file, "-o", "wide"}, {"devices", "--from-files", file, "-o", "json"},
		{"devices", "--from-files", file, "-o", "yaml"}, {"devices", "--from-files", file, "-o", "name"},
		{"why", pod, team, "--from-files", file}, {"why", pod, team, "--from-files", file, "-o", "json"}, {"why", "no\x1b[8msuch", "--from-files", file},
		{"impact", "--from-files", file, "-o", "json", "rule\x1b[8m"},
		{"explain", "no\x1b[8msuch"}, {"no\x1b[8msuch"}, {"policy", "eval", file},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			cli.Run(t.Context(), args, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			all := out.String() + errs.String()
			if !strings.Contains(all, `\u001b`) && !strings.Contains(all, `\x1b`) && !strings.Contains(all, `\e[`) {
				t.Errorf("no text of the objects is in %q", all)
			}
			for _, r := range all {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Fatalf("writes %q in %q", r, all)
				}
			}
		})
	}
}

// TestOneLine: no name adds a line of its own to the output.
func TestOneLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claim.yaml")
	const forged = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "gpu\n::error::forged", namespace: "team\n::error::forged"}
spec: {devices: {requests: [{name: "gpu\n::error::forged", exactly: {deviceClassName: gpu.example.com, tolerations: [{operator: Exists}]}}]}}
`
	if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"lint"}, {"lint", "-o", "github"}, {"lint", "--verdicts"}, {"audit", "--from-files"}, {"policy", "eval"}} {
		var out, errs bytes.Buffer
		cli.Run(t.Context(), append(args, file), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		all := out.String() + errs.String()
		if !strings.Contains(all, "::error::forged") || strings.Contains(all, "\n::error::forged") {
			t.Errorf("%q writes\n%s", args, all)
		}
	}
}
