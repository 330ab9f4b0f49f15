package manager

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers"
	"github.com/dra-steward/dra-steward/pkg/evictor"
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

// TestPatchStatus: one controller writes the statuses of patches: the leader, or one without leader
// election that does more than to observe.
func TestPatchStatus(t *testing.T) {
	for _, tt := range []struct {
		mode   evictor.Mode
		elects bool
		want   int
	}{
		{evictor.ModeObserve, true, 1}, {evictor.ModeObserve, false, 0},
		{evictor.ModeFull, true, 1}, {evictor.ModeFull, false, 1},
	} {
		o, e := Options{Mode: string(tt.mode), leaderElect: tt.elects, patchStatus: true}, &eviction{}
		if err := o.addPatchStatus(e, &rest.Config{Host: "https://127.0.0.1"}, prometheus.NewRegistry(), logr.Discard()); err != nil {
			t.Fatal(err)
		}
		if n := len(e.controllers); n != tt.want {
			t.Errorf("mode %s, leader election %t: %d controllers write, want %d", tt.mode, tt.elects, n, tt.want)
		}
	}
}
