package node

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// recorded is the report of what the real kubelet 1.37.0 held for three pods, and of a device
// of a device plugin.
func recorded(t *testing.T) nodeagent.Holdings {
	t.Helper()
	content, err := os.ReadFile("../../../pkg/podresources/testdata/kubelet-1.37.0.all.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []podresources.Holding
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	report := nodeagent.Holdings{Node: "n1", At: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	for _, h := range all {
		if h.Container == "all" || !slices.Contains([]string{"requests", "extended", "pod-level"}, h.Pod) {
			continue
		}
		held := nodeagent.HeldDevice{Holding: h, Attributes: map[string]string{"uuid": "GPU-" + h.Device}}
		if h.Container == "only-b" {
			held.Taints = []nodeagent.TaintOfHolder{{Taint: "example.com/degraded:NoSchedule", Tolerated: false}, {Taint: "example.com/repair:NoExecute", Tolerated: true}}
		}
		report.Holdings = append(report.Holdings, held)
	}
	report.Holdings = append(report.Holdings, nodeagent.HeldDevice{Holding: podresources.Holding{
		Namespace: "default", Pod: "legacy", PodUID: "1", Container: "main", State: "running", Resource: "vendor.example/gpu", Device: "GPU-9",
		Prepared: podresources.PreparedYes, Source: podresources.FromPodResources, Exactness: podresources.CDIUnknown}})
	return report
}

// TestHoldingsPage: docs/node.md shows what the command prints.
func TestHoldingsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/node.md")
	if err != nil {
		t.Fatal(err)
	}
	report := recorded(t)
	var text, one bytes.Buffer
	if err := printHoldings(&text, report, nil, false, true); err != nil {
		t.Fatal(err)
	}
	report.Holdings = slices.DeleteFunc(report.Holdings, func(h nodeagent.HeldDevice) bool { return h.Container != "only-b" })
	if err := cmdutil.Print(&one, "json", report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{text.String(), one.String()} {
		if !strings.Contains(string(page), "\n"+want+"```") {
			t.Errorf("docs/node.md does not have\n%s", want)
		}
	}
}

// TestHoldingsWide: empty cells are "-", and attributes have a column.
func TestHoldingsWide(t *testing.T) {
	var out bytes.Buffer
	if err := printHoldings(&out, recorded(t), []string{"uuid", "resource.kubernetes.io/pciBusID"}, true, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	fields := func(line string) []string { return strings.Fields(line) }
	if got := fields(lines[0]); !slices.Equal(got, strings.Fields("NAMESPACE POD CONTAINER CLAIM REQUEST DEVICE STATE ADMIN SHARE RESOURCE PREPARED EXACTNESS TAINTS UUID PCIBUSID")) {
		t.Error(got)
	}
	if got := lines[len(lines)-1]; !slices.Equal(fields(got), strings.Fields("default legacy main - - vendor.example/gpu/GPU-9 running false - vendor.example/gpu yes cdi-unknown - - -")) {
		t.Error(got)
	}
	if !strings.Contains(out.String(), "example.com/degraded:NoSchedule, example.com/repair:NoExecute (tolerated)   GPU-dev-") {
		t.Error(out.String())
	}
}
