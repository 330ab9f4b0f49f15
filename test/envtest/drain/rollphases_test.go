package drain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// killedIn waits until a node of the roll is in a state, in which the test holds it, and kills the
// controller there. The next one leaves the node in that state.
func (s site) killedIn(node string, state v1alpha1.RollState) {
	s.Helper()
	is := func(context.Context) (bool, error) { return s.nodeOf(node).State == state, nil }
	s.within(rollTime, node+" is "+string(state), is)
	do(s, steward.kill())
	do(s, steward.start())
	s.runs()
	if n := s.nodeOf(node); n.State != state {
		s.Errorf("after the kill, %s is %s, want %s: %s", node, n.State, state, n.Message)
	}
}

// runs waits until the controller decides about rolls: it writes the generation of the roll that it has
// seen.
func (s site) runs() {
	s.Helper()
	patch := fmt.Sprintf(`{"spec": {"timeouts": {"work": "%dm"}}}`, 60+s.theRoll(s.Context()).Generation)
	do(s, s.create(s.rolls().Patch(s.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})))
	s.within(rollTime, "the controller runs", func(ctx context.Context) (bool, error) {
		r := s.theRoll(ctx)
		return r.Status.ObservedGeneration == r.Generation, nil
	})
}

// did counts the calls of the controller about objects of the test that succeeded.
func (s site) did(verb, namespace, resource, prefix string) (n int) {
	s.Helper()
	for _, e := range asked(s.T, namespace, resource, "") {
		if e.Verb == verb && e.ResponseStatus.Code < 300 && strings.HasPrefix(e.ObjectRef.Name, prefix) {
			n++
		}
	}
	return n
}

// hold keeps the pod of a proof that has ended from going, or lets it go.
func (s site) hold(proof string, finalizers string) error {
	patch := fmt.Appendf(nil, `{"metadata": {"finalizers": %s}}`, finalizers)
	return s.create(c.CoreV1().Pods(proofsNamespace).Patch(s.Context(), proof, types.MergePatchType, patch, metav1.PatchOptions{}))
}

// publishPart makes the pool of a node one of two slices, of which one is there.
func (s site) publishPart(ctx context.Context, node string) error {
	api := c.ResourceV1().ResourceSlices()
	slice, err := api.Get(ctx, s.name+"-"+node, metav1.GetOptions{})
	if err != nil || slice.Spec.Pool.ResourceSliceCount == 2 {
		return err
	}
	slice.Spec.Pool.Generation++
	slice.Spec.Pool.ResourceSliceCount = 2
	return s.create(api.Update(ctx, slice, metav1.UpdateOptions{}))
}

// TestRollKilledInEachState: the controller is killed while the roll of a driver waits in each state in
// turn: for a budget, for the new pod, for its slices, for the proof, and for the end of its pod. The roll
// goes on each time, and nothing is done twice.
func TestRollKilledInEachState(t *testing.T) {
	s := newSiteAlone(t, "rollstates", perNode)
	d := s.drive()
	s.replicas("web", 6, "") // all devices are held, so that the budget blocks the node
	s.budget("web", "web", 6)
	d.set(func() { d.broken["node-0"] = true })
	s.roll(append(s.proof(), "--nodes=node-0")...)
	s.killedIn("node-0", v1alpha1.RollDraining)
	if n := len(evicted(t, s.name)); n != 0 {
		t.Errorf("%d pods were evicted in spite of the budget", n)
	}
	do(s, c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.scale("web", 4)
	s.killedIn("node-0", v1alpha1.RollReplacing)
	d.set(func() { d.broken["node-0"], d.late["node-0"] = false, true })
	s.killedIn("node-0", v1alpha1.RollPublishing)
	d.set(func() { d.late["node-0"] = false })
	s.killedIn("node-0", v1alpha1.RollProving)
	proof := s.nodeOf("node-0").Drain
	s.within(rollTime, "the proof runs", func(ctx context.Context) (bool, error) {
		pod, err := c.CoreV1().Pods(proofsNamespace).Get(ctx, proof, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, nil
	})
	do(s, s.hold(proof, `["example.com/hold"]`))
	s.prove()
	s.killedIn("node-0", v1alpha1.RollRestoring)
	if s.theRoll(t.Context()).Status.CompletionTime != nil {
		t.Error("the roll is complete before its proof has gone")
	}
	do(s, s.hold(proof, `null`))
	s.completed()
	d.replaced("node-0")
	once(t, s.name)
	for what, n := range map[string]int{
		"deletions of pods of the driver": s.did("delete", driversNamespace, "pods", s.name+"-"),
		"proofs":                          s.did("create", proofsNamespace, "pods", s.name+"-"),
		"drains":                          s.did("create", "", v1alpha1.DeviceDrainResource, s.name+"-"),
	} {
		if n != 1 {
			t.Errorf("%d %s, want 1", n, what)
		}
	}
}

// TestRollNodesKilledInEachState: so it is with work on a node, which is cordoned once and uncordoned once.
func TestRollNodesKilledInEachState(t *testing.T) {
	s := newSiteAlone(t, "rollwork", perNode)
	const node = "rollwork-ghost"
	s.ghost(node)
	s.removeRoll()
	expectOf(t, "roll", cmdutil.ExitClean, nil, "nodes", s.driver, "--name="+s.name, "--nodes="+node, "--until=condition=KernelIsCurrent", "--acknowledge="+otherTests)
	s.killedIn(node, v1alpha1.RollWorking)
	isCordoned := func() bool {
		t.Helper()
		n, err := c.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		do(s, err)
		return n.Spec.Unschedulable
	}
	if !isCordoned() {
		t.Error("the node is not cordoned while it is worked on")
	}
	do(s, s.publishPart(t.Context(), node))
	s.monitor(node, "KernelIsCurrent", "Upgraded", "6.12")
	s.killedIn(node, v1alpha1.RollPublishing)
	if !isCordoned() {
		t.Error("the node is not cordoned before its devices are published")
	}
	s.publishOn(node, 3, perNode)
	s.completed()
	if isCordoned() {
		t.Error("the node is left cordoned")
	}
	if n := s.did("patch", "", "nodes", node); n != 2 {
		t.Errorf("the controller patched the node %d times, want a cordon and its end", n)
	}
}

// TestRollWaitsForOperator: with --wait-for operator, the controller deletes no pod of the driver. It waits
// until another user has replaced it, and takes the cordon back when its devices are published.
func TestRollWaitsForOperator(t *testing.T) {
	s := newSite(t, "rolloperator", perNode)
	d := s.drive()
	s.roll("--nodes=node-2", "--wait-for=operator")
	s.within(rollTime, "it waits for the operator", func(context.Context) (bool, error) {
		return strings.HasPrefix(s.nodeOf("node-2").Message, "waits until an operator replaces pod "+driversNamespace+"/"), nil
	})
	d.replaced()
	pods, err := c.CoreV1().Pods(driversNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + s.name, FieldSelector: "spec.nodeName=node-2"})
	do(s, err)
	for i := range pods.Items {
		do(s, c.CoreV1().Pods(driversNamespace).Delete(t.Context(), pods.Items[i].Name, metav1.DeleteOptions{}))
	}
	s.completed()
	d.replaced("node-2")
	if n := s.did("delete", driversNamespace, "pods", s.name+"-"); n != 0 {
		t.Errorf("the controller deleted %d pods of the driver", n)
	}
}
