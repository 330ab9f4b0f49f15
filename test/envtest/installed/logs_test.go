package installed

import (
	"context"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/test/envtest/internal/loglines"
)

// TestLogs: every line of webhook and controller is JSON with a time, a level and a message, and
// none is noise. Those of the node agent and of the scheduler have tests of their own.
func TestLogs(t *testing.T) {
	_, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	lines := 0
	for _, component := range []string{"webhook", "controller"} {
		for _, pod := range kubelet.Pods(component) {
			for line := range strings.Lines(kubelet.Log(pod.Object.Name)) {
				lines++
				if err := loglines.Check(strings.TrimSpace(line)); err != nil {
					t.Errorf("%s: %v", component, err)
				}
			}
		}
	}
	if lines < 10 {
		t.Errorf("%d lines, want those of three starts", lines)
	}
}
