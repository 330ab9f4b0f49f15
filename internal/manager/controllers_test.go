package manager

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers"
)

// TestAddFlags: commands that read the arguments of a controller know all of its flags.
func TestAddFlags(t *testing.T) {
	var o Options
	known := &cobra.Command{Use: "controller"}
	o.AddFlags(known)
	Command(cmdutil.Streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		if known.Flags().Lookup(f.Name) == nil {
			t.Errorf("AddFlags does not add --%s", f.Name)
		}
	})
}

// TestControllers: a flag of the program switches each controller on, and a function adds
// each but the eviction.
func TestControllers(t *testing.T) {
	command := Command(cmdutil.Streams{})
	for _, c := range controllers.All() {
		if command.Flags().Lookup(c.Flag) == nil {
			t.Errorf("%s: there is no flag --%s", c.Name, c.Flag)
		}
	}
	if added, listed := len(Options{}.controllers())+1, len(controllers.All()); added != listed {
		t.Errorf("%d controllers are added, %d are listed", added, listed)
	}
}
