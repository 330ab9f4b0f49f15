package cli

import (
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
// splits at commas everywhere, --policies nowhere, and --dry-run is none, client or server.
func TestFlagsAgree(t *testing.T) {
	kinds := map[string]map[string][]string{} // by flag, then by what it takes: commands
	each(Command(cmdutil.Streams{}), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
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
