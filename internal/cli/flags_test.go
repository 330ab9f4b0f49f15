package cli

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestFlagsAgree: a flag takes the same values in every command that has it: --from-files
// splits at commas everywhere, --policies nowhere, --dry-run is none, client or server, and every
// duration may have days.
func TestFlagsAgree(t *testing.T) {
	kinds := map[string]map[string][]string{} // by flag, then by what it takes: commands
	each(Command(cmdutil.Streams{}), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, days := f.Value.(*cmdutil.Duration); f.Value.Type() == "duration" && !days {
				t.Errorf("%s --%s: use cmdutil.DurationVar", c.CommandPath(), f.Name)
			}
			kind := fmt.Sprintf("%s, alone %q", f.Value.Type(), f.NoOptDefVal)
			if kinds[f.Name] == nil {
				kinds[f.Name] = map[string][]string{}
			}
			kinds[f.Name][kind] = append(kinds[f.Name][kind], c.CommandPath())
		})
	})
	for name, want := range map[string]int{"from-files": 5, "dry-run": 3, "policies": 5} {
		commands := slices.Concat(slices.Collect(maps.Values(kinds[name]))...)
		if len(commands) < want {
			t.Errorf("--%s: want at least %d commands, have %s", name, want, strings.Join(commands, ", "))
		}
	}
	delete(kinds, "request-timeout") // that of serve bounds requests that it answers
	for name, kinds := range kinds {
		if len(kinds) > 1 {
			t.Errorf("--%s differs: %v", name, kinds)
		}
	}
}

func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		each(sub, do)
	}
}

// TestMeantFlag: a flag that a command does not have gets an error with the one to use, or with the
// nearest one, before anything connects.
func TestMeantFlag(t *testing.T) {
	for args, want := range map[string]string{
		"impact --selector rack=r7 a:NoExecute":                "for the labels of nodes, use 'dra-steward impact -l KEY=VALUE'",
		"whatif drain --labels rack=r7":                        "use 'dra-steward whatif drain -l KEY=VALUE'",
		"roll --label rack=r7 gpu.example.com":                 "use 'dra-steward roll -l KEY=VALUE'",
		"capacity --selector rack=r7":                          "capacity selects no nodes by labels; 'dra-steward devices -l KEY=VALUE' does",
		"drain --node node-1":                                  "for the devices of a node, use 'dra-steward drain node/NAME'",
		"taint --nodes node-1 a:NoSchedule":                    "use 'dra-steward taint node/NAME'",
		"roll --node node-1 gpu.example.com":                   "did you mean --nodes?",
		"uninstall --time-out 10m":                             "did you mean --timeout?",
		"uninstall --patience 10m":                             "see 'dra-steward uninstall --help'",
		"uninstall --timeout 10":                               `invalid argument "10" for "--timeout" flag: "10": must be a duration such as 90m`,
		"devices -x":                                           "see 'dra-steward devices --help'",
		"drain --selector rack=r7":                             "use 'dra-steward drain -l rack=r7'",
		"devices node-1 --from-files FILES":                    `no device, pool or driver "node-1": for the devices of the node, use node/node-1`,
		"devices rack=r7 --from-files FILES":                   "for the labels of nodes, use -l 'rack=r7'",
		"impact node-1 a/b:None --from-files FILES":            "for the devices of the node, use node/node-1",
		"whatif drain pair-0 -n team-a --from-files FILES":     "for the devices of the pod, use pod/pair-0",
		"whatif drain pair-0-gpu -n team-a --from-files FILES": "for the devices of the claim, use claim/pair-0-gpu",
		"devices gpu-99 --from-files FILES":                    `no device, pool or driver "gpu-99"; "dra-steward devices" lists them`,
	} {
		var out bytes.Buffer
		args := strings.Fields(strings.Replace(args, "FILES", "../../docs/foresight/cluster.yaml", 1))
		if !slices.Contains(args, "--from-files") {
			args = append(args, "--server=https://127.0.0.1:1")
		}
		code := Run(t.Context(), args, cmdutil.Streams{Out: &out, Err: &out})
		if code != cmdutil.ExitFailed || !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%q: exit code %d, want 2 with one line that has %q:\n%s", args, code, want, &out)
		}
	}
}

// TestSelectorOfKubectl: --selector with labels, as kubectl takes it, names our flag for the labels of
// nodes, before anything connects.
func TestSelectorOfKubectl(t *testing.T) {
	for args, wants := range map[string]bool{
		"drain --selector rack=r7": true, "drain --selector=rack==r7": true, "drain --selector rack": true,
		"taint --selector rack=r7 a:NoSchedule": true, "devices --selector rack=r7": true,
		`drain --selector device.driver=="a.example"`: false, "drain --selector true": false, "drain --selector 1==1": false,
	} {
		var out bytes.Buffer
		code := Run(t.Context(), append(strings.Fields(args), "--server=https://127.0.0.1:1"), cmdutil.Streams{Out: &out, Err: &out})
		if code != cmdutil.ExitFailed || strings.Contains(out.String(), " -l ") != wants || strings.Contains(out.String(), "connection refused") == wants {
			t.Errorf("%s: exit code %d\n%s", args, code, &out)
		}
	}
}
