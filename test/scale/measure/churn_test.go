package measure

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/scale"
	"github.com/dra-steward/dra-steward/test/scale/load"
)

const (
	// churnVariable is how long jobs are replaced, as a duration.
	churnVariable = "DRA_STEWARD_CHURN"
	// churnNodes is how many nodes there are then.
	churnNodes = 500
	// churnPause is the time from the end of a round to the next one.
	churnPause = 5 * time.Second
	// maxGrowth bounds what goroutines, heap and series are at the end, as a factor of what they are in the second
	// quarter.
	maxGrowth = 1.1
)

// TestChurn replaces a tenth of the jobs in each round, and has a rule, a patch, a drain and a
// class of its own in each, which the next one deletes. The goroutines, the heap
// and the series of metrics of webhook and controller do not grow.
func TestChurn(t *testing.T) {
	text := os.Getenv(churnVariable)
	if text == "" {
		t.Skipf("takes most of an hour to show that nothing grows; make test-long runs it, as does %s=45m", churnVariable)
	}
	during, err := time.ParseDuration(text)
	must(t, err)
	cluster, err := envtest.Start(t.Context(), envtest.Options{DeviceTaintRules: true, Output: logWriter{t}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := scale.Cluster{Nodes: churnNodes, Seed: 1}
	r := newRelease(t, cluster, buildProgram(t), map[string]any{"monitoring": map[string]any{"secure": false}, "controller": map[string]any{"drains": map[string]any{"enabled": true}}})
	r.install(t)
	fill(t, cluster, w, &step{nodes: w.Nodes})
	hook := r.start(t, "webhook")
	r.connect(t)
	processes := []*process{hook, r.start(t, "controller")}
	states := make([][]state, len(processes))
	begin := time.Now()
	for round := 1; time.Since(begin) < during; round++ {
		must(t, load.Churn(t.Context(), cluster.Config(), w, round))
		r.change(t, round)
		<-time.After(churnPause)
		for i, p := range processes {
			states[i] = append(states[i], p.state(t))
		}
	}
	for i, p := range processes {
		report(t, p.name, states[i])
	}
}

// change creates the objects of a round, and deletes those of the round before.
func (r *release) change(t *testing.T, round int) {
	t.Helper()
	for _, object := range r.changing(round - 1) {
		must(t, client.IgnoreNotFound(r.client.Delete(t.Context(), object)))
	}
	for _, object := range r.changing(round) {
		must(t, r.client.Create(t.Context(), object))
	}
}

// changing are the objects of a round besides its jobs.
func (r *release) changing(round int) (all []*unstructured.Unstructured) {
	if round < 1 {
		return nil
	}
	name := fmt.Sprintf("churn-%d", round)
	pool := scale.NodeName(round % churnNodes)
	driver := scale.GPUDriver
	for _, one := range []struct {
		version, kind string
		spec          map[string]any
	}{
		{"resource.k8s.io/v1", "DeviceClass", map[string]any{"selectors": []any{map[string]any{"cel": map[string]any{"expression": fmt.Sprintf("device.driver == %q", driver)}}}}},
		{r.cluster.DeviceTaintRules().GroupVersion().String(), "DeviceTaintRule", map[string]any{"deviceSelector": map[string]any{"driver": driver, "pool": pool},
			"taint": map[string]any{"key": "example.com/" + name, "effect": "NoSchedule"}}},
		{v1alpha1.GroupVersion().String(), v1alpha1.ResourceSlicePatchKind, map[string]any{"devices": map[string]any{"filter": map[string]any{"driver": driver, "pool": pool},
			"attributes": map[string]any{fmt.Sprint("example.com/round_", round): map[string]any{"string": "x"}}}}},
		{v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind, map[string]any{"selector": map[string]any{"driver": scale.NICDriver, "pool": pool}}},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": one.version, "kind": one.kind, "metadata": map[string]any{"name": name}, "spec": one.spec}}
		all = append(all, object)
	}
	return all
}

// A state is what a process has after a round.
type state struct {
	goroutines, heap float64
	// series are their names.
	series []string
}

// state reads the metrics of a process.
func (p *process) state(t *testing.T) (s state) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/metrics", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, has := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "#") || !has {
			continue
		}
		value, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		must(t, err)
		switch s.series = append(s.series, name); name {
		case "go_goroutines":
			s.goroutines = value
		case "go_memstats_heap_alloc_bytes":
			s.heap = value
		}
	}
	must(t, lines.Err())
	if s.goroutines == 0 || s.heap == 0 {
		t.Fatalf("%s has no metrics of its goroutines and heap", p.name)
	}
	return s
}

// report compares the last quarter with the second one. Of the heap, the least counts, which is near a
// garbage collection.
func report(t *testing.T, name string, all []state) {
	t.Helper()
	if len(all) < 20 {
		t.Fatalf("%d rounds: want 20 at least", len(all))
	}
	quarter := len(all) / 4
	first, last := all[quarter:2*quarter], all[len(all)-quarter:]
	for _, one := range []struct {
		what  string
		unit  float64
		value func(state) float64
	}{
		{"goroutines", 1, func(s state) float64 { return s.goroutines }},
		{"MiB of heap", 1 << 20, func(s state) float64 { return s.heap }},
		{"series", 1, func(s state) float64 { return float64(len(s.series)) }},
	} {
		before, after := least(first, one.value)/one.unit, least(last, one.value)/one.unit
		t.Logf("| %s | %d | %s | %.0f | %.0f | %.2f |", name, len(all), one.what, before, after, after/before)
		if after/before > maxGrowth {
			t.Errorf("%s has %.0f %s in the last quarter of %d rounds, and had %.0f in the second one", name, after, one.what, len(all), before)
			if one.what == "series" {
				t.Logf("new series: %q", added(all[quarter].series, all[len(all)-1].series))
			}
		}
	}
}

func least(all []state, value func(state) float64) float64 {
	lowest := value(all[0])
	for _, s := range all {
		lowest = min(lowest, value(s))
	}
	return lowest
}

// added are some of the names that only the second list has.
func added(before, after []string) []string {
	names := slices.DeleteFunc(slices.Clone(after), func(name string) bool { return slices.Contains(before, name) })
	return names[:min(len(names), 20)]
}
