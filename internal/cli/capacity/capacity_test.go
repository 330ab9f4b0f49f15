package capacity_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/capacity"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const cluster = "../../../docs/capacity/cluster.yaml"

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := capacity.CapacityCommand(cmdutil.Streams{Out: &out, Err: &out})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append(args, "--from-files", cluster))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCapacityOutput: the formats are those of devices.
func TestCapacityOutput(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-o name", "gpu.example.com\nmig.example.com\n"},
		{"--by node --no-headers --class gpu", "node-1   4   3   1   0   0   3   1   0   0\nnode-2   3   2   0   1   0   2   1   0   0\nnode-3   1   0   0   0   1   0   0   0   0\n"},
		{"--by class -o custom-columns=CLASS:.name,LEFT:.allocatable", "CLASS      LEFT\ngpu        5\nhalf-gpu   1\n"},
		{"--class half-gpu -o jsonpath={.total.allocatable}/{.total.fits[0].exact}", "1/true"},
		{"--by namespace --no-headers", "team-a   1   1   0\nteam-b   1   1   0\n"},
		{"--by model --driver gpu.example.com -o jsonpath={.rows[*].name}", "A100 T4"},
	} {
		if got, err := run(t, strings.Fields(tt.args)...); err != nil || got != tt.want {
			t.Errorf("capacity %s: %v\n%s\nwant\n%s", tt.args, err, got, tt.want)
		}
	}
	for args, want := range map[string]string{
		"--by rack":    `--by "rack": must be one of class, driver`,
		"--class none": `DeviceClass "none" not found`,
		"-o table":     `--output "table": must be one of text, wide`,
	} {
		if _, err := run(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("capacity %s: %v, want %s", args, err, want)
		}
	}
}
