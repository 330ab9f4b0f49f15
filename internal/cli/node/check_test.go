package node

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestCheckVisible: in the pod of the agent, which does not mount all of the node, what is not mounted is not
// reported as missing.
func TestCheckVisible(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "site/cdi"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec := `{"cdiVersion": "0.6.0", "kind": "vendor.example/gpu", "devices": [{"name": "0", "containerEdits": {
		"deviceNodes": [{"path": "/dev/gpu0"}], "hooks": [{"hookName": "createContainer", "path": "/usr/bin/hook"}]}}]}`
	if err := os.WriteFile(filepath.Join(root, "site/cdi/gpu.json"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	for visible, want := range map[string]string{"": "device-node-missing hook-missing", "/dev,/run": "device-node-missing", "/run,/opt": ""} {
		var out bytes.Buffer
		c := nodeCheckCommand(cmdutil.Streams{Out: &out})
		args := []string{"--host-root", root, "--cdi-dir", "/site/cdi", "vendor.example/gpu=0"}
		if visible != "" {
			args = append(args, "--host-visible", visible)
		}
		c.SetArgs(args)
		err := c.ExecuteContext(t.Context())
		var found []string
		for _, reason := range []string{"device-node-missing", "hook-missing"} {
			if strings.Contains(out.String(), reason) {
				found = append(found, reason)
			}
		}
		if got := strings.Join(found, " "); got != want || errors.Is(err, cmdutil.ErrFindings) != (want != "") || want == "" && err != nil {
			t.Errorf("--host-visible %q: found %q, want %q; %v\n%s", visible, got, want, err, out.String())
		}
	}
}
