package measure

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/scale"
	"github.com/dra-steward/dra-steward/test/scale/load"
)

const (
	// drainedNodes is how many nodes the drain is about: it has as many devices as a drain can have.
	drainedNodes = 512
	// statusPause is how long the controller waits from one write of a status to the next.
	statusPause = time.Second
	// maxWait bounds how long the pods of a namespace wait for the next eviction while their budget allows one.
	maxWait = 30 * time.Second
)

// TestDrain drains all GPUs of 512 nodes, 4,096 devices, in one drain. The controller of budgets is that of
// Kubernetes; each namespace can miss one pod at a time. The test ends pods that are evicted and replaces them.
// Each write of the status is a second after the one before, and no namespace waits long for its next eviction.
func TestDrain(t *testing.T) {
	needsScale(t)
	w := scale.Cluster{Nodes: lastStep(t), Seed: 1}
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", strconv.Itoa(8<<30))
	cluster, err := envtest.Start(t.Context(), envtest.Options{AuditPolicy: controllerAudit, DeviceTaintRules: true, Output: logWriter{t}, ControllerManager: true,
		APIServerArgs:         map[string][]string{"audit-log-maxsize": {"10000"}}, // it is read from where it was, so that it must not rotate
		ControllerManagerArgs: map[string][]string{"controllers": {"disruption-controller"}, "kube-api-qps": {"1000"}, "kube-api-burst": {"1000"}}})
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := newRelease(t, cluster, buildProgram(t), map[string]any{"controller": map[string]any{"drains": map[string]any{"enabled": true}}})
	r.install(t)
	must(t, cluster.StopComponent(assets.ControllerManager)) // it writes to budgets, too
	fill(t, cluster, w, &step{nodes: w.Nodes})
	setBudgets(t, r.client, w)
	must(t, cluster.StartComponent(t.Context(), assets.ControllerManager))
	awaitBudgets(t, r.client)
	controller := r.start(t, "controller")
	controller.settle(t)
	pid := controller.command.Process.Pid
	before, offset := cpu(t, pid), sizeOf(t, cluster.AuditLog())

	evicted := drainNodes(t, r, w, min(drainedNodes, w.Nodes))
	computed, memory := cpu(t, pid)-before, peak(t, pid)
	asked := requestsSince(t, cluster.AuditLog(), offset)
	t.Logf("%d nodes, %s\n%d devices, %d pods: cordoned after %.1f s, all evicted %.1f s after the first, %.0f a second, drained after %.1f s; longest wait of a namespace %.1f s; "+
		"processor time for each pod %.2f ms, peak memory %.0f MiB, requests %v",
		w.Nodes, machine(), min(drainedNodes, w.Nodes)*scale.PerNode, evicted.pods, evicted.first.Seconds(), evicted.wall.Seconds(), float64(evicted.pods)/evicted.wall.Seconds(), evicted.drained.Seconds(),
		evicted.wait.Seconds(), 1000*computed.Seconds()/float64(evicted.pods), memory, asked)
	if evicted.wait > maxWait {
		t.Errorf("a namespace waited %v for its next eviction while its budget allowed one, want at most %v", evicted.wait, maxWait)
	}
	if refused := asked["create pods/eviction"] - evicted.pods; refused > 0 {
		t.Errorf("%d evictions of %d pods were refused, want none: the controller knows the budgets", refused, evicted.pods)
	}
	if least := statusPauses(t, cluster.AuditLog(), offset); least < statusPause {
		t.Errorf("two writes of the status are %v apart, want at least %v", least, statusPause)
	}
}

// setBudgets lets each namespace miss one pod at a time, in the form that needs no controller of the pods.
func setBudgets(t *testing.T, c client.Client, w scale.Cluster) {
	t.Helper()
	for i := range w.Namespaces() {
		budget := w.Budget(i)
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
		budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(budget.Status.DesiredHealthy)), Selector: budget.Spec.Selector}
		must(t, c.Update(t.Context(), budget))
	}
}

// awaitBudgets waits until each budget allows one pod to leave.
func awaitBudgets(t *testing.T, c client.Client) {
	t.Helper()
	eventually(t, "the controller of Kubernetes has counted the pods of the budgets", func(ctx context.Context) error {
		budgets := &policyv1.PodDisruptionBudgetList{}
		if err := c.List(ctx, budgets); err != nil {
			return err
		}
		for _, budget := range budgets.Items {
			if budget.Name == scale.App && (budget.Status.ObservedGeneration != budget.Generation || budget.Status.DisruptionsAllowed != 1) {
				return fmt.Errorf("%s of %s at generation %d has the status %+v", budget.Name, budget.Namespace, budget.Generation, budget.Status)
			}
		}
		return nil
	})
}

// A drainedResult is what a drain took.
type drainedResult struct {
	pods int
	// first is from the creation of the drain to the first eviction, wall from that to the last one, and drained from the
	// creation to the condition.
	first, wall, drained time.Duration
	// wait is the longest time from the replacement of a pod to the next eviction in its namespace.
	wait time.Duration
}

// drainNodes drains the GPUs of the first nodes, and plays kubelet and the owners of pods.
func drainNodes(t *testing.T, r *release, w scale.Cluster, nodes int) (found drainedResult) {
	t.Helper()
	config := r.cluster.Config()
	config.QPS, config.ContentType = -1, apiruntime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	want := podsOn(w, nodes)
	found.pods = len(want)
	list, err := clients.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	events, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	defer events.Stop()
	ended, replaced := make(chan int, len(want)), make(chan error, 1)
	go func() { replaced <- load.Replace(t.Context(), r.cluster.Config(), w, ended) }()

	begin := time.Now()
	must(t, r.apply(t.Context(), bigDrain(t, w, nodes, len(want))))
	ready, last := map[string]time.Time{}, begin
	for deadline := time.After(20 * time.Minute); len(want) > 0; {
		select {
		case err := <-replaced:
			t.Fatalf("the replacement of pods ended: %v", err)
		case <-deadline:
			t.Fatalf("%d of %d pods have not been evicted", len(want), found.pods)
		case event, open := <-events.ResultChan():
			if !open || event.Type == watch.Error {
				t.Fatalf("the watch ended with %v, %d of %d pods have not been evicted", event.Object, len(want), found.pods)
			}
			pod, now := event.Object.(*corev1.Pod), time.Now()
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			if claim, is := want[name]; is && (pod.DeletionTimestamp != nil || event.Type == watch.Deleted) {
				delete(want, name)
				if last == begin {
					found.first = now.Sub(begin)
				}
				if before, waits := ready[pod.Namespace]; waits {
					found.wait = max(found.wait, now.Sub(before))
				}
				delete(ready, pod.Namespace)
				last = now
				ended <- claim
			} else if !is && event.Type == watch.Modified && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				ready[pod.Namespace] = now
			}
		}
	}
	close(ended)
	must(t, <-replaced)
	found.wall = last.Sub(begin) - found.first
	awaitDrained(t, r)
	found.drained = time.Since(begin)
	return found
}

// podsOn are the pods that hold a GPU of the first nodes, with the numbers of their claims.
func podsOn(w scale.Cluster, nodes int) map[types.NamespacedName]int {
	first := map[string]bool{}
	for i := range nodes {
		first[scale.NodeName(i)] = true
	}
	all := map[types.NamespacedName]int{}
	for i := range w.Claims() {
		if pod, _ := w.Workload(i, 0); first[pod.Spec.NodeName] {
			all[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = i
		}
	}
	return all
}

// bigDrain drains the GPUs of the first nodes as fast as budgets allow.
func bigDrain(t *testing.T, w scale.Cluster, nodes, pods int) *unstructured.Unstructured {
	t.Helper()
	drain := &v1alpha1.DeviceDrain{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.DeviceDrainKind},
		ObjectMeta: metav1.ObjectMeta{Name: "racks", Annotations: map[string]string{
			v1alpha1.AcknowledgementAnnotation: fmt.Sprintf("devices<=%d,claims<=%d,pods<=%d,namespaces<=%d", nodes*scale.PerNode, pods, pods, w.Namespaces())}},
		Spec: v1alpha1.DeviceDrainSpec{EvictionsPerMinute: new(int32(v1alpha1.DrainRateMax)), PodsWithoutController: v1alpha1.EvictPods}}
	for i := range nodes {
		for _, device := range w.GPUs(i).Spec.Devices {
			drain.Spec.Devices = append(drain.Spec.Devices, v1alpha1.DeviceName{Driver: scale.GPUDriver, Pool: scale.NodeName(i), Device: device.Name})
		}
	}
	object, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(drain)
	must(t, err)
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}
}

func awaitDrained(t *testing.T, r *release) {
	t.Helper()
	eventually(t, "the drain ends", func(ctx context.Context) error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceDrainKind))
		if err := r.client.Get(ctx, client.ObjectKey{Name: "racks"}, object); err != nil {
			return err
		}
		drain := v1alpha1.DeviceDrain{}
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &drain); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(drain.Status.Conditions, v1alpha1.DrainDrained) {
			return fmt.Errorf("counts %+v, blocked %v", drain.Status.Counts, drain.Status.Blocked)
		}
		return nil
	})
}

// statusPauses returns the shortest time between two writes of the status of a drain that an audit log has.
func statusPauses(t *testing.T, log string, offset int64) (least time.Duration) {
	t.Helper()
	var last time.Time
	for _, event := range testaudit.Entries[auditEvent](t, log, offset) {
		if event.ObjectRef.Resource != v1alpha1.DeviceDrainResource || event.ObjectRef.Subresource != "status" {
			continue
		}
		at := event.RequestReceivedTimestamp.Time
		if pause := at.Sub(last); !last.IsZero() && (least == 0 || pause < least) {
			least = pause
		}
		last = at
	}
	return least
}
