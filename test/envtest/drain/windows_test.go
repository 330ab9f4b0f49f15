package drain_test

import (
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestWindow: outside of its window a drain cordons and evicts no pods; with the window removed it
// goes on.
func TestWindow(t *testing.T) {
	s := newSite(t, "window", 1)
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	full := s.driver + "/node-0/gpu-0"
	later := time.Now().UTC().Add(3 * time.Hour)
	window := later.Format("15:04") + "-" + later.Add(time.Hour).Format("15:04")

	expect(t, cmdutil.ExitFailed, []string{`--window: "22:00-25:00": must be [DAYS ]HH:MM-HH:MM[ ZONE]`}, full, "--window=22:00-25:00")
	expect(t, cmdutil.ExitClean, []string{"cordon " + full, "evict 1.", "no pods are evicted before " + later.Format("2006-01-02T15:04:00Z")}, full, "--dry-run=server", "--window="+window)
	expect(t, cmdutil.ExitClean, []string{"devicedrain window created"}, full, "--name=window", "--window="+window)
	s.wait("window", "Draining=False OutsideWindow")
	s.wait("window", "Cordoned=True Cordoned")
	expect(t, cmdutil.ExitClean, []string{"OutsideWindow (the next window opens at " + later.Format("2006-01-02T15:04:00Z") + "), 0 evicted, 1 left"}, "--list")

	if out, err := cluster.Kubectl(t.Context(), "patch", "devicedrain", "window", "--type=merge", "-p", `{"spec":{"windows":[{"from":"7 pm","to":"20:00"}]}}`).CombinedOutput(); err == nil {
		t.Errorf("the API server takes a window from 7 pm: %s", out)
	}
	s.publish(1, 3, 1)
	expect(t, cmdutil.ExitClean, []string{"resumed: OutsideWindow", "Drained, 1 evicted"}, full, "--name=window", "--window=", "--wait", "--timeout=3m")
	expect(t, cmdutil.ExitClean, []string{"deleted"}, "--cancel", "window")
}
