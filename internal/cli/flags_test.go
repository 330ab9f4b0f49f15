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
		if code != cmdutil.ExitFailed || strings.Contains(out.String(), "use -l") != wants || strings.Contains(out.String(), "connection refused") == wants {
			t.Errorf("%s: exit code %d\n%s", args, code, &out)
		}
	}
}
