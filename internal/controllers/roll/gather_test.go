package roll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestUnpublished: a pod that holds a device of the node that is no longer published counts, and leaves with the others; the
// driver still has to unprepare its claim.
func TestUnpublished(t *testing.T) {
	index := &usage.Index{}
	for name, pool := range map[string]string{"lost": "node-0", "network": "fabric"} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Driver: driver, Pool: pool, Device: "gpu-3"}}}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
		pod.Spec.NodeName, pod.Status.Phase = "node-0", corev1.PodRunning
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To(name)}}
		index.SetClaim(claim)
		index.SetPod(pod)
	}
	r := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll"}, Spec: v1alpha1.DeviceRollSpec{Driver: driver}}
	c := &Controller{options: Options{Usage: index}}
	first := v1alpha1.DeviceName{Driver: driver, Pool: "node-0", Device: "gpu-0"}
	pools := []v1alpha1.RollPool{{Driver: driver, Name: "node-0", Devices: 1}}
	for name, tt := range map[string]struct {
		found *published
		own   *v1alpha1.RollNode
	}{
		"one device":   {&published{devices: []v1alpha1.DeviceName{first}, pools: pools}, &v1alpha1.RollNode{}},
		"all of them":  {&published{}, &v1alpha1.RollNode{State: v1alpha1.RollWorking, Pools: pools}},
		"still listed": {&published{devices: []v1alpha1.DeviceName{first, {Driver: driver, Pool: "node-0", Device: "gpu-3"}}, pools: pools}, &v1alpha1.RollNode{}},
	} {
		n := c.node(t.Context(), r, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, tt.found, tt.own, &cluster{})
		if len(n.Hit.Claims) != 1 || n.Hit.Claims[0].Name != "lost" || len(n.Unpublished) > 1 || (len(n.Unpublished) == 1) == (name == "still listed") {
			t.Errorf("%s: %v hold devices, unpublished %v", name, n.Hit.Claims, n.Unpublished)
		}
		w := &work{Input: Input{Roll: r}}
		if devices := w.drainOf(&v1alpha1.RollNode{Name: "node-0"}, n).Spec.Devices; !slices.Contains(devices, v1alpha1.DeviceName{Driver: driver, Pool: "node-0", Device: "gpu-3"}) {
			t.Errorf("%s: the drain has %v", name, devices)
		}
	}
}

// earlierAPI has the drain of an earlier roll of the name.
type earlierAPI struct{ API }

func (earlierAPI) Create(_ context.Context, d *v1alpha1.DeviceDrain, _ bool) (*v1alpha1.DeviceDrain, error) {
	return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "devicedrains"}, d.Name)
}

// TestDrainOfEarlierRoll: the drain of an earlier roll of the same name is not one of this roll: it has other devices, and the
// garbage collector deletes it.
func TestDrainOfEarlierRoll(t *testing.T) {
	r := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll", UID: "new"}}
	earlier := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: DrainName("roll", "node-0"), Labels: map[string]string{v1alpha1.RollLabel: "roll"},
		Annotations: map[string]string{v1alpha1.RollAnnotation: "node-0"}, OwnerReferences: []metav1.OwnerReference{{Kind: v1alpha1.DeviceRollKind, Name: "roll", UID: "old"}}}}
	drains := cache.NewSharedIndexInformer(nil, &v1alpha1.DeviceDrain{}, 0, cache.Indexers{})
	if err := drains.GetStore().Add(earlier); err != nil {
		t.Fatal(err)
	}
	c := &Controller{options: Options{API: earlierAPI{}, Drains: drains}}
	all := &cluster{drains: []*v1alpha1.DeviceDrain{earlier}}
	if left := c.left(r, all); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	failed := ""
	c.createDrains(t.Context(), r, []*v1alpha1.DeviceDrain{earlier}, all, func(_, text string, _ error) { failed = text })
	if !strings.Contains(failed, "is not a drain of this roll") {
		t.Errorf("it says %q", failed)
	}
}

// proofAPI counts how often proofs are read.
type proofAPI struct {
	API
	reads int
	pod   *corev1.Pod
}

func (a *proofAPI) Proof(context.Context, string, string) (*corev1.Pod, *resourceapi.ResourceClaim, error) {
	a.reads++
	return a.pod, nil, nil
}

// TestProofOfSkipped: the proof of a node that is left out is read until it is gone, and again once the node is in work.
func TestProofOfSkipped(t *testing.T) {
	r := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll", UID: "roll"}}
	proved(&r.Spec)
	api := &proofAPI{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "proof", OwnerReferences: ownedBy(r)}}}
	c := &Controller{options: Options{API: api}, proofless: map[string]types.UID{}}
	read := func(state v1alpha1.RollState) Node {
		var n Node
		c.readProof(t.Context(), r, &v1alpha1.RollNode{Name: "node-0", State: state}, &n)
		return n
	}
	if n := read(v1alpha1.RollSkipped); !n.Proof.Exists || api.reads != 1 {
		t.Errorf("%d reads, %+v", api.reads, n.Proof)
	}
	api.pod = nil
	for range 10 {
		read(v1alpha1.RollSkipped)
	}
	if api.reads != 2 {
		t.Errorf("%d reads, want 2", api.reads)
	}
	read(v1alpha1.RollProving)
	read(v1alpha1.RollUndone)
	if api.reads != 4 {
		t.Errorf("%d reads after the node was in work again, want 4", api.reads)
	}
}

// lostAPI stores a status, and its answer is lost.
type lostAPI struct{ API }

func (lostAPI) UpdateRollStatus(context.Context, *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	return nil, errors.New("the connection was lost")
}

// TestLostStatus: a node with which a roll begins is in work for others, though the answer of the write is lost.
func TestLostStatus(t *testing.T) {
	m := newModel(t, 1, asIs)
	m.pass()
	c := &Controller{options: Options{API: lostAPI{}}}
	all := &cluster{busy: map[string]string{}}
	decision := Decide(m.input())
	if err := c.store(t.Context(), &v1alpha1.DeviceRoll{ObjectMeta: m.roll.ObjectMeta}, decision, all); err == nil || all.busy["node-0"] != "roll" {
		t.Errorf("%v, busy %v, state %s", err, all.busy, decision.Status.Nodes[0].State)
	}
}
