package schedulerperf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// deviceTaints is the topic of which scheduler_perf has no large workloads.
const deviceTaints = "dra_devicetaints"

// A workload is a line of cases.tsv.
type workload struct {
	topic, testCase, name string
	rounds                int
}

func (w workload) String() string { return w.testCase + "/" + w.name }

func readWorkloads(t testing.TB) (all []workload) {
	t.Helper()
	data, err := os.ReadFile("cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		columns := strings.Split(line, "\t")
		if i == 0 {
			continue // the names of the columns
		}
		if len(columns) != 4 {
			t.Fatalf("cases.tsv:%d: has %d columns, want topic, case, workload and rounds", i+1, len(columns))
		}
		rounds, err := strconv.Atoi(columns[3])
		if err != nil || rounds < 1 {
			t.Fatalf("cases.tsv:%d: rounds %q: want a number above 0", i+1, columns[3])
		}
		all = append(all, workload{columns[0], columns[1], columns[2], rounds})
	}
	return all
}

// upstream is the folder of scheduler_perf for a topic, below which its paths are resolved.
func upstream(t testing.TB, topic string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	list.Stderr = t.Output()
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "test/integration/scheduler_perf", strings.ReplaceAll(topic, "_", "/"))
}

// readConfig reads the configuration of a topic, which scheduler_perf has in a folder.
func readConfig(t testing.TB, topic, folder string) []byte {
	t.Helper()
	if topic == deviceTaints {
		folder = "devicetaints"
	}
	data, err := os.ReadFile(filepath.Join(folder, "performance-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A testCase is what we need to know of a case of scheduler_perf.
type testCase struct {
	Name      string
	Workloads []struct {
		Name   string
		Params struct{ NodesWithDRA, MeasurePods int }
	}
}

// size returns how many nodes and pods a workload has.
func (w workload) size(t testing.TB) (nodes, pods int) {
	t.Helper()
	var cases []testCase
	if err := yaml.Unmarshal(readConfig(t, w.topic, upstream(t, w.topic)), &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		for _, one := range c.Workloads {
			if c.Name == w.testCase && one.Name == w.name {
				return one.Params.NodesWithDRA, one.Params.MeasurePods
			}
		}
	}
	t.Fatalf("cases.tsv: %s: no such workload in the configuration of %s", w, w.topic)
	return 0, 0
}

// steadyFor is how long pods are scheduled in a steady state. Eight runs of the 10 seconds of
// Kubernetes had a ratio of 0.87 on two cores, and eight of 40 seconds one of 1.05.
const steadyFor = "40s"

// rewrite returns a configuration without thresholds, which are those of the machines of
// Kubernetes, with steadyFor, and with the path of a scheduler's configuration in each case unless
// it is empty.
func rewrite(data []byte, path string) ([]byte, error) {
	var cases []map[string]any
	if err := yaml.Unmarshal(data, &cases); err != nil {
		return nil, err
	}
	for _, c := range cases {
		if _, has := c["schedulerConfigPath"]; has {
			return nil, fmt.Errorf("case %v: has a schedulerConfigPath, want none: its scheduler is not the default one", c["name"])
		}
		if path != "" {
			c["schedulerConfigPath"] = path
		}
		workloads, _ := c["workloads"].([]any)
		for _, w := range workloads {
			fields, _ := w.(map[string]any)
			delete(fields, "threshold")
			if params, _ := fields["params"].(map[string]any); params["steadyState"] == true {
				params["duration"] = steadyFor
			}
		}
	}
	return yaml.Marshal(cases)
}

// throughput returns the average of pods per second from the file that scheduler_perf wrote
// into a folder.
func throughput(dir string) (float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		return 0, errors.Join(err, fmt.Errorf("%s: has %d files *.json, want one", dir, len(files)))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return 0, err
	}
	var items struct {
		DataItems []struct {
			Data   map[string]float64
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(data, &items); err != nil {
		return 0, fmt.Errorf("%s: %w", files[0], err)
	}
	var found []float64
	for _, item := range items.DataItems {
		if average := item.Data["Average"]; item.Labels["Metric"] == "SchedulingThroughput" && average > 0 {
			found = append(found, average)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s: SchedulingThroughput has the averages %v, want one", files[0], found)
	}
	return found[0], nil
}

// TestWorkloads: each line of cases.tsv is a workload, of a case whose scheduler can be
// replaced.
func TestWorkloads(t *testing.T) {
	for _, w := range readWorkloads(t) {
		if nodes, pods := w.size(t); nodes < 500 || pods < 1 {
			t.Errorf("%s: %d nodes and %d pods", w, nodes, pods)
		}
		data := readConfig(t, w.topic, upstream(t, w.topic))
		for _, path := range []string{"", "/tmp/scheduler.yaml"} {
			config, err := rewrite(data, path)
			if err != nil {
				t.Fatal(w, err)
			}
			if bytes.Contains(config, []byte("threshold:")) || bytes.Contains(config, []byte("schedulerConfigPath: /tmp")) != (path != "") {
				t.Errorf("%s: with the path %q the configuration is\n%s", w, path, config)
			}
		}
	}
	config, err := rewrite([]byte("- {name: a, workloads: [{params: {duration: 10s, steadyState: true}}, {params: {duration: 0s, steadyState: false}}]}"), "")
	if err != nil || strings.Count(string(config), "duration: "+steadyFor) != 1 || !bytes.Contains(config, []byte("duration: 0s")) {
		t.Errorf("want %s for the steady state alone, got\n%s\n%v", steadyFor, config, err)
	}
	if _, err := rewrite([]byte("- {name: a, schedulerConfigPath: b}"), ""); err == nil {
		t.Error("a case with a scheduler's configuration of its own must be refused")
	}
}

// TestDeviceTaints: ours is the file of Kubernetes with more workloads behind it.
func TestDeviceTaints(t *testing.T) {
	theirs, err := os.ReadFile(filepath.Join(upstream(t, deviceTaints), "performance-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if data := readConfig(t, deviceTaints, ""); !bytes.HasPrefix(data, append(theirs, "  - name: "...)) {
		t.Error("devicetaints/performance-config.yaml: does not begin with the file of Kubernetes; copy that, and append our workloads")
	}
}

func TestThroughput(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "BenchmarkPerfScheduling.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := throughput(dir); err == nil {
		t.Error("an empty folder must be refused")
	}
	write(`{"version": "v1", "dataItems": [{"data": {"Average": 3}, "labels": {"Metric": "other"}}, {"data": {"Average": 97.5}, "labels": {"Metric": "SchedulingThroughput"}}]}`)
	if got, err := throughput(dir); got != 97.5 || err != nil {
		t.Errorf("the throughput is %v, %v, want 97.5", got, err)
	}
	write(`{"version": "v1", "dataItems": []}`)
	if _, err := throughput(dir); err == nil {
		t.Error("a file without a throughput must be refused")
	}
}
