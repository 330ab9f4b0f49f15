package foresight_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// tries is how many pods must have been evicted from a device for the claim to count as kept.
const tries = 3

// TestNamedClaims: whether a pod with a named claim lands again depends on what created it. A
// ReplicaSet creates another pod while the first one terminates: the claim is never without a
// pod, so that it stays allocated to the tainted device, and each pod is evicted. A StatefulSet
// waits until the pod has ended, a Job for ten seconds, and the claim is allocated again. A pod
// alone does not come back.
func TestNamedClaims(t *testing.T) {
	newWorld := worlds(t)
	for name, want := range map[string]struct {
		create  func(w *world, template corev1.PodTemplateSpec) error
		verdict placement.Verdict
		kind    placement.Kind
	}{
		"replicaset":  {(*world).replicaSet, placement.Never, placement.Kept},
		"job":         {(*world).job, placement.Lands, ""},
		"statefulset": {(*world).statefulSet, placement.Lands, ""},
		"alone":       {(*world).alone, placement.Never, placement.NoOwner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, namedPlan("named-"+name))
			defer w.remove()
			w.named(want.create)
			seen := w.read()
			answer, err := seen.Predict(t.Context(), w.planned(seen))
			w.must(err)
			if len(answer.Moves) != 1 || answer.Moves[0].Verdict != want.verdict || want.kind != "" && answer.Moves[0].Reason.Kind != want.kind {
				t.Fatalf("predicted %+v, want %s %s", answer.Moves, want.verdict, want.kind)
			}
			w.command(answer)
			w.taint()
			w.follow(want.verdict, want.kind, seen.Pods[0].UID)
		})
	}
}

// command expects the same answer of the command, which reads the cluster.
func (w *world) command(want placement.Answer) {
	var out, problems bytes.Buffer
	code := cli.Run(w.Context(), []string{"whatif", "taint", w.drivers[0] + "/" + w.nodes[0] + "/gpu-0", "example.com/broken:NoExecute", "-o", "json", "--kubeconfig", cluster.Kubeconfig()},
		cmdutil.Streams{Out: &out, Err: &problems})
	var got placement.Answer
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		w.Fatalf("%v: %s%s", err, &out, &problems)
	}
	if len(got.Moves) != 1 || got.Moves[0].Verdict != want.Moves[0].Verdict || got.Moves[0].Pod != want.Moves[0].Pod || (code != cmdutil.ExitClean) != (got.Stranded() > 0) {
		w.Fatalf("exit code %d, %s%s, want %+v", code, &out, &problems, want)
	}
}

// namedPlan has one node with two devices.
func namedPlan(name string) *plan {
	p := &plan{name: name, nodes: []string{name + "-n0"}, cpu: []int64{8}, drivers: []string{name + ".example.com"}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + p.drivers[0] + `"`}}}
	p.classes = []*resourceapi.DeviceClass{class}
	p.slices = []*resourceapi.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{Driver: p.drivers[0], NodeName: &p.nodes[0],
		Pool: resourceapi.ResourcePool{Name: p.nodes[0], Generation: 1, ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}}}}
	p.change = change{kind: "taint devices", driver: p.drivers[0], pool: p.nodes[0], devices: []string{"gpu-0"}}
	return p
}

// named creates the world, and a pod with a named claim in it.
func (w *world) named(create func(*world, corev1.PodTemplateSpec) error) {
	ctx := w.Context()
	w.prepare(nodes.Options{Names: w.nodes, Labels: map[string]string{worldLabel: w.name}, Grace: 1})
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: w.name}}}
	_, err := w.client.ResourceV1().ResourceClaims(w.name).Create(ctx, claim, metav1.CreateOptions{})
	w.must(err)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}
	template.Spec = corev1.PodSpec{NodeSelector: map[string]string{worldLabel: w.name}, TerminationGracePeriodSeconds: ptr.To(int64(2)),
		ResourceClaims: []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: ptr.To("claim")}}, Containers: []corev1.Container{{Name: "c", Image: "example.com/image"}}}
	w.must(create(w, template))
	w.eventually("a pod runs", func() bool {
		pods := w.pods()
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning
	})
}

func (w *world) replicaSet(template corev1.PodTemplateSpec) error {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}}
	_, err := w.client.AppsV1().ReplicaSets(w.name).Create(w.Context(), set, metav1.CreateOptions{})
	w.sets = []*appsv1.ReplicaSet{set}
	return err
}

func (w *world) statefulSet(template corev1.PodTemplateSpec) error {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}}
	_, err := w.client.AppsV1().StatefulSets(w.name).Create(w.Context(), set, metav1.CreateOptions{})
	return err
}

func (w *world) job(template corev1.PodTemplateSpec) error {
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(100)), Template: template}}
	_, err := w.client.BatchV1().Jobs(w.name).Create(w.Context(), job, metav1.CreateOptions{})
	return err
}

func (w *world) alone(template corev1.PodTemplateSpec) error {
	_, err := w.client.CoreV1().Pods(w.name).Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: template.Spec}, metav1.CreateOptions{})
	return err
}

// follow waits until the verdict has come true.
func (w *world) follow(verdict placement.Verdict, kind placement.Kind, first types.UID) {
	evicted := map[types.UID]bool{}
	w.eventually(string(verdict)+" "+string(kind), func() bool {
		claim, device := w.claims()[0], ""
		if claim.Status.Allocation != nil {
			device = claim.Status.Allocation.Devices.Results[0].Device
		}
		pods := w.pods()
		for _, pod := range pods {
			evicted[pod.UID] = evicted[pod.UID] || pod.DeletionTimestamp != nil && device == "gpu-0"
		}
		switch {
		case kind == placement.NoOwner:
			return len(pods) == 0 && device == ""
		case kind == placement.Kept && device != "gpu-0":
			w.Fatalf("the claim is on %q", device)
		case kind == placement.Kept:
			n := 0
			for _, is := range evicted {
				if is {
					n++
				}
			}
			return n > tries
		}
		return len(pods) == 1 && pods[0].UID != first && pods[0].Status.Phase == corev1.PodRunning && pods[0].DeletionTimestamp == nil && device == "gpu-1"
	})
}

// eventually waits until a condition holds.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("not within %s: %s", within, what)
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		}
	}
}
