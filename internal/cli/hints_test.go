package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// crowd is a cluster in which 24 pods in 6 namespaces use 6 devices: more than the default thresholds for pods
// and for namespaces.
func crowd(t *testing.T) (file string) {
	t.Helper()
	var text, devices strings.Builder
	for team := range 6 {
		var users []string
		for pod := range 4 {
			users = append(users, fmt.Sprintf("{resource: pods, name: pod-%d, uid: u-%d-%[1]d}", pod, team))
			fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: pod-%d, namespace: team-%d, uid: u-%[2]d-%[1]d}\n"+
				"spec: {nodeName: node-1, containers: [{name: c}], resourceClaims: [{name: gpu, resourceClaimName: a}]}\nstatus: {phase: Running}\n---\n", pod, team)
		}
		fmt.Fprintf(&devices, "{name: gpu-%d}, ", team)
		fmt.Fprintf(&text, "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a, namespace: team-%d, uid: c-%[1]d}\n"+
			"spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}\nstatus: {reservedFor: [%[2]s], allocation: {devices: {results: "+
			"[{request: gpu, driver: gpu.example.com, pool: node-1, device: gpu-%[1]d}]}}}\n---\n", team, strings.Join(users, ", "))
	}
	fmt.Fprintf(&text, "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: node-1}\nspec: {driver: gpu.example.com, "+
		"pool: {name: node-1, generation: 1, resourceSliceCount: 1}, nodeName: node-1, devices: [%s]}\n", strings.TrimSuffix(devices.String(), ", "))
	file = filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHintOnce: a command says what to do once, also if several things are wrong.
func TestHintOnce(t *testing.T) {
	file := crowd(t)
	for args, hint := range map[string]string{
		"lint ../../examples/denied": "run 'dra-steward explain RULE'",
		"impact driver/gpu.example.com a.example/b:NoExecute --from-files " + file: "acknowledge the impact with",
		"devices no-such --from-files " + file:                                     `"dra-steward devices" lists them`,
		"audit --from-files ../../examples/denied --raise NO-SUCH":                 "NO-SUCH",
		"drain --selector rack=r7":                                                 "-l rack=r7",
		"nothing":                                                                  "--help",
	} {
		var out bytes.Buffer
		code := Run(t.Context(), strings.Fields(args), cmdutil.Streams{Out: &out, Err: &out, In: strings.NewReader("")})
		if code == cmdutil.ExitClean || strings.Count(out.String(), hint) != 1 {
			t.Errorf("%s: exit code %d, want %q once:\n%s", args, code, hint, &out)
		}
	}
}
