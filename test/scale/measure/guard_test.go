package measure

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/scale"
)

// maxStays bounds the memory that foresight adds to the webhook for each node, in KiB.
const maxStays = 128

// TestGuardForesight measures the guard with foresight and the guard without it, by turns, in one
// control plane with one webhook of the chart: the time of a write, the API server included, and
// the memory of the process. The number of nodes is the last one of stepsVariable.
func TestGuardForesight(t *testing.T) {
	needsScale(t)
	w := scale.Cluster{Nodes: lastStep(t), Seed: 1}
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", strconv.Itoa(8<<30))
	cluster, err := envtest.Start(t.Context(), envtest.Options{AuditPolicy: auditPolicy, DeviceTaintRules: true, Output: logWriter{t}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := newRelease(t, cluster, buildProgram(t), map[string]any{"guard": map[string]any{"foresight": true}})
	r.install(t)
	fill(t, cluster, w, &step{nodes: w.Nodes})
	config := cluster.Config()
	warned := &warnings{}
	config.QPS, config.WarningHandler, config.ContentType = -1, warned, apiruntime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	runs := map[bool]*guarded{false: {}, true: {}}
	for _, foresight := range []bool{false, true, true, false} {
		t.Run(fmt.Sprint("foresight ", foresight), func(t *testing.T) { runs[foresight].measure(t, r, clients, warned, w, foresight) })
	}
	if t.Failed() {
		return
	}
	off, on := runs[false], runs[true]
	t.Logf("checks that took too long: %d without foresight, %d with it", off.late, on.late)
	t.Logf("%d nodes, %s\n| foresight | a node: p50 | p99 | all pods: p50 | p99 | memory | peak |\n| --- | --- | --- | --- | --- | --- | --- |\n%s%s", w.Nodes, machine(), off.row("off"), on.row("on"))
	if stays := (on.stays - off.stays) * 1024 / float64(w.Nodes); w.Nodes >= 1000 && stays > maxStays {
		t.Errorf("foresight adds %.0f KiB for each node, want at most %d", stays, maxStays)
	}
	if slow := max(percentile(on.node, 99), percentile(on.all, 99)); slow > 5*time.Second {
		t.Errorf("a write took %v: API servers wait 5 s", slow)
	}
}

// lastStep is the last number of nodes of stepsVariable.
func lastStep(t *testing.T) int {
	t.Helper()
	steps := strings.Split(os.Getenv(stepsVariable), ",")
	nodes, err := strconv.Atoi(steps[len(steps)-1])
	must(t, err)
	return nodes
}

// warnings are those of the last answer: the requests are made one after the other.
type warnings struct{ text string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.text += "\n" + text }

// guarded is what was measured of the guard.
type guarded struct {
	// node and all are the times of writes of rules that evict the pods of a node, and all.
	node, all []time.Duration
	// stays and peak are the most memory of a process in MiB, when it is idle and in between.
	stays, peak float64
	// late is how many were denied because counting and its policy took too long.
	late int
}

func (g *guarded) row(name string) string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", 1000*d.Seconds()) }
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %.0f MiB | %.0f MiB |\n", name, ms(percentile(g.node, 50)), ms(percentile(g.node, 99)),
		ms(percentile(g.all, 50)), ms(percentile(g.all, 99)), g.stays, g.peak)
}

func percentile(all []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// measure runs a webhook and writes rules that are not stored.
func (g *guarded) measure(t *testing.T, r *release, clients kubernetes.Interface, warned *warnings, w scale.Cluster, foresight bool) {
	var drop []string
	if !foresight {
		drop = append(drop, "--guard-foresight")
	}
	hook := r.start(t, "webhook", drop...)
	r.connect(t)
	hook.settle(t)
	g.stays = max(g.stays, rss(t, hook.command.Process.Pid))
	rule := func(pool *string) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(scale.GPUDriver), Pool: pool},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	}
	write := func(ctx context.Context, rule *resourceapi.DeviceTaintRule) (took time.Duration, answer string) {
		warned.text = ""
		begin := time.Now()
		_, err := clients.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		took = time.Since(begin)
		if err != nil {
			answer = err.Error()
		}
		return took, answer + warned.text
	}
	all := fmt.Sprintf("pods<=%d,", w.Claims())
	eventually(t, "the guard knows all pods", func(ctx context.Context) error {
		if _, answer := write(ctx, rule(nil)); !strings.Contains(answer, all) {
			return fmt.Errorf("want %q: %s", all, answer)
		}
		return nil
	})
	for i := range 100 {
		took, answer := write(t.Context(), rule(new(scale.NodeName(i%w.Nodes))))
		if late(answer) {
			g.late++
		} else if strings.Contains(answer, "land again") != foresight {
			t.Fatal(answer)
		}
		g.node = append(g.node, took)
	}
	for range 50 {
		took, answer := write(t.Context(), rule(nil))
		g.all = append(g.all, took)
		if late(answer) {
			g.late++ // the policy did not finish in time, and the write is denied
		} else if !strings.Contains(answer, all) || strings.Contains(answer, "again: ") != foresight {
			t.Fatal(answer)
		}
	}
	g.peak = max(g.peak, peak(t, hook.command.Process.Pid))
}
