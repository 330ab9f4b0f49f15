package measure

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/scale"
)

const (
	// reactions is how many DeviceReactions there are: three of four to taints, the others to
	// conditions of nodes. The first sees what drivers publish.
	reactions = 20
	// sickSlices is how many drivers publish a taint, and take it back.
	sickSlices = 100
	// sickKey is the key of that taint.
	sickKey = "example.com/sick-0"
)

// controllerAudit logs what the components of the release ask for.
const controllerAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:` + namespace + `"]
  - level: None
`

// maxReactions bounds what reactions add to the memory of the controller, as a factor.
const maxReactions = 1.5

// TestReactions measures the controller without reactions and with 20 of them, by turns, in one
// control plane: memory, processor time and requests, at rest and while the drivers of 100 nodes
// publish a taint and take it back. The number of nodes is the last one of stepsVariable.
func TestReactions(t *testing.T) {
	needsScale(t)
	w := scale.Cluster{Nodes: lastStep(t), Seed: 1}
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", "8589934592")
	cluster, err := envtest.Start(t.Context(), envtest.Options{AuditPolicy: controllerAudit, DeviceTaintRules: true, Output: logWriter{t}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	program := buildProgram(t)
	off := newRelease(t, cluster, program, map[string]any{"controller": map[string]any{"drains": map[string]any{"enabled": true}}})
	on := newRelease(t, cluster, program, map[string]any{"controller": map[string]any{"drains": map[string]any{"enabled": true}, "reactions": map[string]any{"enabled": true}}})
	on.install(t)
	fill(t, cluster, w, &step{nodes: w.Nodes})
	config := cluster.Config()
	config.QPS, config.ContentType = -1, apiruntime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	all := map[bool][]reacted{}
	for _, with := range []bool{false, true, true, false} {
		t.Run(fmt.Sprint("reactions ", with), func(t *testing.T) {
			r := off
			if with {
				r = on
			}
			all[with] = append(all[with], reactTo(t, r, clients, with))
		})
	}
	if t.Failed() {
		return
	}
	t.Logf("%d nodes, %s\n| reactions | memory | peak | idle | processor time for %d taints | requests meanwhile |\n| --- | --- | --- | --- | --- | --- |\n%s%s",
		w.Nodes, machine(), 2*sickSlices, rows("none", all[false]), rows(fmt.Sprint(reactions), all[true]))
	if factor := all[true][0].memory / all[false][0].memory; factor > maxReactions {
		t.Errorf("the controller needs %.2f times the memory with reactions, want at most %.1f", factor, maxReactions)
	}
}

// A reacted is what a controller costs.
type reacted struct {
	// memory and peak are in MiB, idle in per cent of a core.
	memory, peak, idle float64
	computed           time.Duration
	requests           map[string]int
}

func rows(name string, all []reacted) string {
	var out strings.Builder
	for _, one := range all {
		var asked []string
		for _, what := range slices.Sorted(maps.Keys(one.requests)) {
			asked = append(asked, fmt.Sprintf("%d %s", one.requests[what], what))
		}
		fmt.Fprintf(&out, "| %s | %.0f MiB | %.0f MiB | %.2f %% | %.2f s | %s |\n", name, one.memory, one.peak, one.idle, one.computed.Seconds(), strings.Join(asked, ", "))
	}
	return out.String()
}

// reactTo runs a controller while devices become sick and healthy.
func reactTo(t *testing.T, r *release, clients kubernetes.Interface, with bool) (found reacted) {
	t.Helper()
	if with {
		createReactions(t, r)
	}
	controller := r.start(t, "controller")
	pid := controller.command.Process.Pid
	controller.settle(t)
	found.idle, found.memory = controller.idle(t, time.Duration(10*rounds())*time.Second), rss(t, pid)
	before, offset := cpu(t, pid), sizeOf(t, r.cluster.AuditLog())
	for _, sick := range []bool{true, false} {
		taintSlices(t, clients, sick)
		if with {
			awaitSick(t, r, sick)
		}
		controller.settle(t)
	}
	found.computed, found.requests = cpu(t, pid)-before, requestsSince(t, r.cluster.AuditLog(), offset)
	found.peak = peak(t, pid)
	return found
}

// createReactions creates the reactions; they are deleted when the test ends.
func createReactions(t *testing.T, r *release) {
	t.Helper()
	for i := range reactions {
		when := map[string]any{"for": "5s", "taint": map[string]any{"key": fmt.Sprintf("example.com/sick-%d", i), "from": "Driver"}}
		if i%4 == 3 {
			when = map[string]any{"for": "5s", "nodeCondition": map[string]any{"type": fmt.Sprintf("GPUProblem%d", i),
				"devices": fmt.Sprintf(`device.driver == %q && device.attributes["condition.dra-steward.io"].message.contains("gpu-0")`, scale.GPUDriver)}}
		}
		reaction := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.DeviceReactionKind,
			"metadata": map[string]any{"name": fmt.Sprintf("sick-%d", i)}, "spec": map[string]any{"mode": "Observe", "when": when}}}
		must(t, r.apply(t.Context(), reaction))
		t.Cleanup(func() { must(t, r.client.Delete(context.WithoutCancel(t.Context()), reaction)) })
	}
}

// awaitSick waits until the first reaction sees all devices sick, or none.
func awaitSick(t *testing.T, r *release, sick bool) {
	t.Helper()
	want := int64(0)
	if sick {
		want = sickSlices
	}
	eventually(t, fmt.Sprint(want, " devices are sick"), func(ctx context.Context) error {
		reaction := &unstructured.Unstructured{}
		reaction.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceReactionKind))
		reaction.SetName("sick-0")
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(reaction), reaction); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(reaction.Object, "status", "counts", "sick"); n != want {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// taintSlices lets the drivers of the first nodes publish a taint of one device, or none.
func taintSlices(t *testing.T, clients kubernetes.Interface, sick bool) {
	t.Helper()
	for node := range sickSlices {
		list, err := clients.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: fmt.Sprintf("spec.driver=%s,spec.nodeName=%s", scale.GPUDriver, scale.NodeName(node))})
		must(t, err)
		for _, slice := range list.Items[:1] {
			slice.Spec.Devices[0].Taints = nil
			if sick {
				slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: sickKey, Value: "yes", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			}
			_, err := clients.ResourceV1().ResourceSlices().Update(t.Context(), &slice, metav1.UpdateOptions{})
			must(t, err)
		}
	}
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	must(t, err)
	return info.Size()
}

// An auditEvent is what an audit log says of a request.
type auditEvent struct {
	Verb                     string
	ObjectRef                struct{ Resource, Subresource string }
	RequestReceivedTimestamp metav1.MicroTime
}

// requestsSince counts the requests in an audit log by verb and resource, without watches.
func requestsSince(t *testing.T, log string, offset int64) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, event := range testaudit.Entries[auditEvent](t, log, offset) {
		if event.Verb != "watch" && event.ObjectRef.Resource != "leases" {
			counts[strings.TrimSuffix(event.Verb+" "+event.ObjectRef.Resource+"/"+event.ObjectRef.Subresource, "/")]++
		}
	}
	return counts
}
