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
	testOthers(t, ofServer, "--kubeconfig", kubeconfig)
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
	testOthers(t, ofServer, "--kubeconfig", kubeconfig, "--scheduler-metrics", url)
	// What does not exist is an error.
	for _, target := range []string{"https://127.0.0.1:1/metrics", "kube-system/none", "scheduler", "ftp://localhost/"} {
		if out, code := run(t, "why", "claim/taken", "-n", namespace, "--kubeconfig", kubeconfig, "--scheduler-metrics", target); code != cmdutil.ExitFailed || !strings.Contains(out, "--scheduler-metrics "+target) {
			t.Errorf("%s: %d %s", target, code, out)
		}
	}
}

// testOthers: the other commands that allocate devices name the same source and gates as why.
func testOthers(t *testing.T, enabled []string, access ...string) {
	t.Helper()
	source := "the metrics of the API server"
	if i := slices.Index(access, "--scheduler-metrics"); i >= 0 {
		source = "the metrics of kube-scheduler, " + access[i+1]
	}
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: asks, namespace: "+namespace+"}\nspec: {containers: [{name: a, image: example.com/a}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"capacity": {"capacity"}, "fit": {"fit", "-f", manifest}, "whatif": {"whatif", "claims", "-f", manifest},
	} {
		out, code := run(t, slices.Concat(args, access)...)
		if code == cmdutil.ExitFailed || !strings.Contains(out, "\nfeature gates: "+source+"\n") {
			t.Errorf("%s: %d, want the source %s:\n%s", name, code, source, out)
		}
		out, code = run(t, slices.Concat(args, access, []string{"-o", "jsonpath={.featureGates.enabled}"})...)
		if code == cmdutil.ExitFailed || strings.TrimSpace(out) != string(must(json.Marshal(enabled))(t)) {
			t.Errorf("%s: %d, gates %s, want %q", name, code, out, enabled)
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
