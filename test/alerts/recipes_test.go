package alerts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/nodeagent"
)

// TestJoinWithDevices runs the recipe of docs/node.md, which joins the holders of devices with
// dcgm-exporter's metrics: on the labels that the agent has with the values of the page.
func TestJoinWithDevices(t *testing.T) {
	page, err := os.ReadFile("../../docs/node.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "### Join with the metrics of the devices")
	if !found {
		t.Fatal("docs/node.md has no such section")
	}
	const holderInfo = "dra_steward_node_device_holder_info"
	labels := holderLabels(t, holderInfo, block(t, section, "yaml"))
	holder := func(pod, uuid, admin, share string) string {
		values := map[string]string{"namespace": "default", "pod": pod, "container": "train", "claim": "gpu", "driver": "gpu.nvidia.com",
			"pool": "node-1", "device": "gpu-0", "attribute_uuid": uuid, "admin_access": admin, "share_id": share, "container_state": "running"}
		var set []string
		for _, label := range labels {
			set = append(set, fmt.Sprintf("%s=%q", label, values[label]))
			delete(values, label)
		}
		if len(values) > 0 {
			t.Fatalf("%s has no labels %v, only %q", holderInfo, values, labels)
		}
		return fmt.Sprintf("  %s{%s} 1x10\n", holderInfo, strings.Join(set, ","))
	}
	series := load(t, time.Minute, holder("alone", "GPU-1", "false", "")+
		holder("shares", "GPU-2", "false", "a")+holder("shares-too", "GPU-2", "false", "b")+
		holder("monitor", "GPU-1", "true", "")+ // sees the device, and does not use it
		holder("no-uuid", "", "false", "")+
		`  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0",device="nvidia0",instance="old"} 70x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0",device="nvidia0",instance="new"} 80x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",gpu="1",device="nvidia1",instance="new"} 30x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-3",gpu="2",device="nvidia2",instance="new"} 9x10
`)
	var got []string
	for _, sample := range evaluate(t, series, block(t, section, "promql"), 5*time.Minute) {
		got = append(got, fmt.Sprintf("%s/%s %s: %v", sample.Metric.Get("namespace"), sample.Metric.Get("pod"), sample.Metric.Get("claim"), sample.F))
	}
	slices.Sort(got)
	if want := []string{"default/alone gpu: 80", "default/shares gpu: 30", "default/shares-too gpu: 30"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeviceMinutes runs the recipe of docs/capacity.md, which adds up the time for which taints
// keep devices: those of two replicas, one after the other, with an hour without any between.
func TestDeviceMinutes(t *testing.T) {
	page, err := os.ReadFile("../../docs/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "### What taints have taken")
	if !found {
		t.Fatal("docs/capacity.md has no such section")
	}
	recipe := block(t, section, "promql")
	check(t, "docs/capacity.md", recipe)
	of := func(driver, state, pod, samples string) string {
		return fmt.Sprintf("  dra_steward_capacity_devices{driver=%q,state=%q,pod=%q} %s\n", driver, state, pod, samples)
	}
	series := load(t, 30*time.Second,
		// Two devices for 100 minutes, and three from the 160th to the 220th, in both for a while.
		of("gpu", "tainted", "a", "2x199 stale")+of("gpu", "tainted", "b", "_x320 3x119 0x3000")+
			of("gpu", "tainted", "c", "_x420 3x19 stale")+
			of("gpu", "held", "a", "8x3000")+
			// All of the time, of which 24 hours count.
			of("nic", "tainted", "a", "1x3500"))
	var got []string
	for _, sample := range evaluate(t, series, recipe, 25*time.Hour) {
		got = append(got, fmt.Sprintf("%s: %v", sample.Metric.Get("driver"), sample.F))
	}
	slices.Sort(got)
	// The first hour of the first hundred minutes is over 24 hours ago.
	if want := []string{fmt.Sprint("gpu: ", 2*39+3*60), "nic: 1440"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// evaluate runs a query at a time after the epoch.
func evaluate(t *testing.T, series memory, expression string, at time.Duration) promql.Vector {
	t.Helper()
	vector, err := query(t.Context(), newEngine(t), series, expression, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatal(err)
	}
	return vector
}

// block is the first block of a page in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)\n```\n").FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no block in %s", language)
	}
	return found[1]
}

// holderLabels are the labels of a metric of the agent with these values of the chart.
func holderLabels(t *testing.T, metric, text string) []string {
	t.Helper()
	var chart struct {
		Node struct{ Attributes, HolderLabels []string }
	}
	if err := yaml.Unmarshal([]byte(text), &chart); err != nil {
		t.Fatal(err)
	}
	metrics, err := nodeagent.NewMetrics(prometheus.NewRegistry(), nodeagent.MetricsOptions{HolderLabels: chart.Node.HolderLabels, Attributes: chart.Node.Attributes})
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 64)
	metrics.Describe(descriptions)
	close(descriptions)
	for d := range descriptions {
		if is := regexp.MustCompile(`fqName: "` + metric + `".* variableLabels: \{(.*?)\}`).FindStringSubmatch(d.String()); is != nil {
			return strings.Split(is[1], ",")
		}
	}
	t.Fatalf("the agent has no metric %s", metric)
	return nil
}
