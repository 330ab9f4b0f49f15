package patches_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestUnreadablePatch: a stored patch with a number that is no quantity keeps no command from reading the cluster.
func TestUnreadablePatch(t *testing.T) {
	installed(t)
	kubectl(t, manifest("unreadable", `{capacity: {x.io/memory: {value: "1e-999999999"}}}`), "create", "-f", "-")
	defer kubectl(t, "", "delete", "resourceslicepatch/unreadable")
	kubectl(t, `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: unreadable}
spec: {driver: gpu.example.com, nodeName: node-1, pool: {name: node-1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}]}
`, "create", "-f", "-")
	defer kubectl(t, "", "delete", "resourceslice/unreadable")
	var out, problems bytes.Buffer
	if code := cli.Run(t.Context(), []string{"devices", "--kubeconfig", cluster.Kubeconfig()}, cmdutil.Streams{Out: &out, Err: &problems}); code != cmdutil.ExitClean || !strings.Contains(out.String(), "gpu-0") {
		t.Errorf("devices: exit code %d\n%s%s", code, &out, &problems)
	}
}
