package scheduler_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/loglines"
)

// TestLogs: the lines of our plugin are without noise: without the right to read
// patches, and with a patch; and no line says again what one has said. The lines of kube-scheduler itself
// are those of kube-scheduler.
func TestLogs(t *testing.T) {
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	w := startWith(t, envtest.Options{
		Scheduler: true, Nodes: []string{"node-0"}, SchedulerProgram: file,
		SchedulerArgs:          map[string][]string{"sole-scheduler": {"true"}, "logging-format": {"json"}},
		SchedulerConfiguration: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + onlyPatched,
	})
	w.publish(t, "node-0", resourceapi.Device{Name: "a"})
	says := func(text string) {
		t.Helper()
		eventually(t, "the log has "+text, func() bool { return strings.Contains(w.log(t), text) })
	}
	says("Pods are scheduled without ResourceSlicePatches: ResourceSlicePatch cannot be read: resourceslicepatches.dra-steward.io is forbidden")
	w.installType(t)
	w.grant(t)
	says("ResourceSlicePatches are applied again")
	w.patch(t, "one", `{attributes: {dc.example.com/rack: {string: r12}}}`)
	w.ask(t, "pod", corev1.DefaultSchedulerName, "")
	w.isBound(t, "pod")
	ours := 0
	for line := range strings.Lines(w.log(t)) {
		var entry struct{ Logger, Caller, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
			t.Errorf("%v: not a line with msg: %s", err, line)
			continue
		}
		own := entry.Logger == "patches" || strings.HasPrefix(entry.Caller, "plugin/") || strings.HasPrefix(entry.Caller, "tracker/")
		if !own && !strings.Contains(line, "ResourceSlicePatch") {
			continue
		}
		ours++
		if err := loglines.Quiet(line); err != nil || entry.Logger == "UnhandledError" {
			t.Errorf("%v: %s", err, line)
		}
	}
	if ours < 3 || ours > 8 {
		t.Errorf("%d lines are about patches, want one for each change:\n%s", ours, w.log(t))
	}
}

func (w *world) log(t *testing.T) string {
	text, err := os.ReadFile(w.Log(assets.Scheduler))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
