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
	"github.com/prometheus/prometheus/promql/promqltest"
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
	storage := promqltest.LoadedStorage(t, "load 1m\n"+
		holder("alone", "GPU-1", "false", "")+
		holder("shares", "GPU-2", "false", "a")+holder("shares-too", "GPU-2", "false", "b")+
		holder("monitor", "GPU-1", "true", "")+ // sees the device, and does not use it
		holder("no-uuid", "", "false", "")+
		`  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0",device="nvidia0",instance="old"} 70x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="0",device="nvidia0",instance="new"} 80x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",gpu="1",device="nvidia1",instance="new"} 30x10
  DCGM_FI_DEV_GPU_UTIL{UUID="GPU-3",gpu="2",device="nvidia2",instance="new"} 9x10
`)
	defer storage.Close()
	query, err := promqltest.NewTestEngine(t, false, 0, 100_000).NewInstantQuery(t.Context(), storage, nil, block(t, section, "promql"), time.Unix(300, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, sample := range vector {
		got = append(got, fmt.Sprintf("%s/%s %s: %v", sample.Metric.Get("namespace"), sample.Metric.Get("pod"), sample.Metric.Get("claim"), sample.F))
	}
	slices.Sort(got)
	if want := []string{"default/alone gpu: 80", "default/shares gpu: 30", "default/shares-too gpu: 30"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
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
