package why_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// testGates asks with the metrics of the API server, with neither, and with those of the
// scheduler, which any user may read here. Both report the same gates: they run with the same.
func testGates(t *testing.T, kubeconfig string) {
	gates := func(t *testing.T, args ...string) (source string, enabled []string) {
		t.Helper()
		out, code := run(t, append([]string{"why", "claim/taken", "-n", namespace, "-o", "json"}, args...)...)
		var answer struct {
			FeatureGates struct {
				Source  string
				Enabled []string
			}
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil || code == cmdutil.ExitFailed {
			t.Fatalf("%d, %v: %s", code, err, out)
		}
		return answer.FeatureGates.Source, answer.FeatureGates.Enabled
	}
	source, ofServer := gates(t, "--kubeconfig", kubeconfig)
	if source != "the metrics of the API server" || !slices.Contains(ofServer, "DRAPrioritizedList") {
		t.Errorf("%s: %q", source, ofServer)
	}
	tenant := must(cluster.UserKubeconfig("tenant"))(t)
	source, defaults := gates(t, "--kubeconfig", tenant)
	if source != "the defaults of Kubernetes "+cluster.Minor()+" (metrics of the API server: forbidden)" {
		t.Error(source)
	}
	if missing := slices.DeleteFunc(slices.Clone(defaults), func(gate string) bool { return slices.Contains(ofServer, gate) }); len(missing) > 0 {
		t.Errorf("%q are not on in the API server", missing)
	}

	url := "https://127.0.0.1:" + schedulerPort(t) + "/metrics"
	source, ofScheduler := gates(t, "--kubeconfig", tenant, "--scheduler-metrics", url)
	if source != "the metrics of kube-scheduler, "+url || !slices.Equal(ofScheduler, ofServer) {
		t.Errorf("%s: %q, the API server has %q", source, ofScheduler, ofServer)
	}
	// What does not exist is an error.
	for _, target := range []string{"https://127.0.0.1:1/metrics", "kube-system/none", "scheduler", "ftp://localhost/"} {
		if out, code := run(t, "why", "claim/taken", "-n", namespace, "--kubeconfig", kubeconfig, "--scheduler-metrics", target); code != cmdutil.ExitFailed || !strings.Contains(out, "--scheduler-metrics "+target) {
			t.Errorf("%s: %d %s", target, code, out)
		}
	}
}

// schedulerPort is the port of the scheduler, from its command line.
func schedulerPort(t *testing.T) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		line, _ := os.ReadFile(process) // it may have ended
		if strings.Contains(string(line), cluster.Dir()) && strings.Contains(strings.Split(string(line), "\x00")[0], "kube-scheduler") {
			if port := regexp.MustCompile(`--secure-port=(\d+)`).FindSubmatch(line); port != nil {
				return string(port[1])
			}
		}
	}
	t.Fatal("no kube-scheduler of this cluster runs")
	return ""
}
