package installed

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// noise are what a log for people on call has no place for: names of Go types and functions, the
// zero time, and lines of libraries that name no fact about the cluster.
var noise = []*regexp.Regexp{
	regexp.MustCompile(`0001-01-01`),
	regexp.MustCompile(`\*v1\.|\.func\d|\(\*[A-Z]|%!|<nil>|0xc0`),
	regexp.MustCompile(`"(Waiting|Done waiting|Starting (reflector|EventSource|Controller|workers))"`),
	regexp.MustCompile(`(?i)caches are synced|waiting for caches`),
}

// TestLogs: every line of webhook and
// controller is JSON with a time, a level and a message, and none is noise.
func TestLogs(t *testing.T) {
	_, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	lines := 0
	for _, component := range []string{"webhook", "controller"} {
		for _, pod := range kubelet.Pods(component) {
			for line := range strings.Lines(kubelet.Log(pod.Object.Name)) {
				lines++
				holdLine(t, component, strings.TrimSpace(line))
			}
		}
	}
	if lines < 10 {
		t.Errorf("%d lines, want those of three starts", lines)
	}
}

func holdLine(t *testing.T, component, line string) {
	t.Helper()
	var entry struct{ Time, Level, Msg string }
	if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
		t.Errorf("%s: %v: not a line with time, level and msg: %s", component, err, line)
	}
	for _, pattern := range noise {
		if found := pattern.FindString(line); found != "" {
			t.Errorf("%s: %q in %s", component, found, line)
		}
	}
}
