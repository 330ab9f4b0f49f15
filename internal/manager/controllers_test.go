package manager

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers"
)

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
