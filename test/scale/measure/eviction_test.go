package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/scale"
)

// evictionAudit has the requests of the controller of Kubernetes and of ours.
const evictionAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:kube-system", "system:serviceaccounts:` + namespace + `"]
  - level: None
`

// An evictor is the controller of a turn.
type evictor string

const (
	inTree evictor = "Kubernetes"
	own    evictor = "dra-steward"
)

// TestEviction has the pods of a rule evicted by the controller of Kubernetes and by ours, by turns, each in a control
// plane of its own: the pods of one GPU of each node with the limit that kube-controller-manager has by default, and
// all pods as fast as they go.
func TestEviction(t *testing.T) {
	needsScale(t)
	w := scale.Cluster{Nodes: lastStep(t), Seed: 1}
	program := buildProgram(t)
	for _, one := range []struct {
		name, device string
		perSecond    int
		turns        []evictor
	}{
		{"one of eight at 20 a second", "gpu-0", 20, []evictor{inTree, own}},
		{"all as fast as they go", "", 1000, []evictor{inTree, own, own, inTree}},
	} {
		t.Run(one.name, func(t *testing.T) {
			all := map[evictor][]evicted{}
			for i, by := range one.turns {
				t.Run(fmt.Sprintf("%d %s", i+1, by), func(t *testing.T) {
					all[by] = append(all[by], evictAll(t, w, program, by, one.device, one.perSecond))
				})
			}
			if t.Failed() {
				return
			}
			t.Logf("%d nodes, %s\n| controller | pods | wall | a second | processor time for each pod | peak memory | requests for each pod |\n| --- | --- | --- | --- | --- | --- | --- |\n%s%s",
				w.Nodes, machine(), evictedRows(inTree, all[inTree]), evictedRows(own, all[own]))
			for i := range all[own] {
				if ours, theirs := all[own][i].wall, all[inTree][i].wall; ours > theirs*3/2 {
					t.Errorf("turn %d took %v, that of Kubernetes %v", i+1, ours, theirs)
				}
			}
		})
	}
}

// evicted is what an eviction took.
type evicted struct {
	pods     int
	wall     time.Duration
	computed time.Duration
	// peak is in MiB.
	peak     float64
	requests map[string]int
}

func evictedRows(by evictor, all []evicted) string {
	var out strings.Builder
	for _, one := range all {
		var asked []string
		for _, what := range slices.Sorted(maps.Keys(one.requests)) {
			asked = append(asked, fmt.Sprintf("%.2f %s", float64(one.requests[what])/float64(one.pods), what))
		}
		fmt.Fprintf(&out, "| %s | %d | %.1f s | %.0f | %.2f ms | %.0f MiB | %s |\n", by, one.pods, one.wall.Seconds(), float64(one.pods)/one.wall.Seconds(),
			1000*one.computed.Seconds()/float64(one.pods), one.peak, strings.Join(asked, ", "))
	}
	return out.String()
}

// evictAll has the pods of a device of each node evicted, or all pods without a device.
func evictAll(t *testing.T, w scale.Cluster, program string, by evictor, device string, perSecond int) evicted {
	t.Helper()
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", strconv.Itoa(8<<30))
	o := envtest.Options{AuditPolicy: evictionAudit, DeviceTaintRules: true, Output: logWriter{t}, ControllerManager: by == inTree,
		APIServerArgs:         map[string][]string{"audit-log-maxsize": {"10000"}}, // it is read from where it was, so that it must not rotate
		ControllerManagerArgs: map[string][]string{"controllers": {"device-taint-eviction-controller"}, "kube-api-qps": {strconv.Itoa(perSecond)}, "kube-api-burst": {strconv.Itoa(perSecond * 3 / 2)}}}
	cluster, err := envtest.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	controller := map[string]any{"mode": "full", "actSince": "always", "evictionsPerSecond": perSecond}
	r := newRelease(t, cluster, program, map[string]any{"controller": controller})
	r.install(t)
	fill(t, cluster, w, &step{nodes: w.Nodes})
	pid, ended := 0, chan struct{}(nil)
	if by == inTree {
		// Its informers began before the objects were there.
		must(t, cluster.StopComponent(assets.ControllerManager))
		must(t, cluster.StartComponent(t.Context(), assets.ControllerManager))
		pid = component(t, assets.ControllerManager, cluster.Dir())
	} else {
		started := r.start(t, "controller")
		pid, ended = started.command.Process.Pid, started.ended
	}
	config := cluster.Config()
	config.QPS, config.ContentType = -1, apiruntime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	settle(t, string(by), pid)
	want := podsWith(w, device)
	leaving := watchLeaving(t, clients, want)
	before, offset, begin := cpu(t, pid), sizeOf(t, cluster.AuditLog()), time.Now()
	createRule(t, clients, w, device)
	leaving(ended)
	found := evicted{pods: len(want), wall: time.Since(begin)}
	settle(t, string(by), pid)
	found.computed, found.peak, found.requests = cpu(t, pid)-before, peak(t, pid), requestsSince(t, cluster.AuditLog(), offset)
	if deleted := found.requests["delete pods"]; deleted < len(want) {
		t.Errorf("%d deletions of %d pods are in the audit log", deleted, len(want))
	}
	return found
}

// createRule makes the rule that evicts, and acknowledges how many it evicts.
func createRule(t *testing.T, clients kubernetes.Interface, w scale.Cluster, device string) {
	t.Helper()
	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "broken", Annotations: map[string]string{
			v1alpha1.AcknowledgementAnnotation: fmt.Sprintf("devices<=%d,claims<=%d,pods<=%d,namespaces<=%d", w.Devices(), w.Claims(), w.Claims(), w.Namespaces())}},
		Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(scale.GPUDriver)},
			Taint: resourceapi.DeviceTaint{Key: scale.GPUDriver + "/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	if device != "" {
		rule.Spec.DeviceSelector.Device = &device
	}
	_, err := clients.ResourceV1().DeviceTaintRules().Create(t.Context(), rule, metav1.CreateOptions{})
	must(t, err)
}

// podsWith are the pods that hold a device of that name on some node, or all.
func podsWith(w scale.Cluster, device string) map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for i := range w.Claims() {
		pod, claim := w.Workload(i, 0)
		if device == "" || claim.Status.Allocation.Devices.Results[0].Device == device {
			all[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
	}
	return all
}

// watchLeaving returns a function that waits until each of the pods is deleted. It fails the test for another pod, and
// if the controller has ended.
func watchLeaving(t *testing.T, clients kubernetes.Interface, want map[types.NamespacedName]bool) (wait func(ended <-chan struct{})) {
	t.Helper()
	list, err := clients.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	events, err := clients.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	return func(ended <-chan struct{}) {
		t.Helper()
		defer events.Stop()
		left := maps.Clone(want)
		for deadline := time.After(20 * time.Minute); len(left) > 0; {
			select {
			case <-ended:
				t.Fatalf("the controller has ended, %d of %d pods have not been deleted", len(left), len(want))
			case <-deadline:
				t.Fatalf("%d of %d pods have not been deleted", len(left), len(want))
			case event, open := <-events.ResultChan():
				if !open || event.Type == watch.Error {
					t.Fatalf("the watch ended with %v, %d of %d pods have not been deleted", event.Object, len(left), len(want))
				}
				pod := event.Object.(*corev1.Pod)
				name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				if pod.DeletionTimestamp == nil && event.Type != watch.Deleted {
					continue
				}
				if !want[name] {
					t.Fatalf("pod %s is deleted, and the rule does not hit it", name)
				}
				delete(left, name)
			}
		}
	}
}
