package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// nodeOf is what the roll says about a node.
func (s *controlled) nodeOf(ctx context.Context, name string) (found v1alpha1.RollNode) {
	for _, n := range s.theRoll(ctx).Status.Nodes {
		if n.Name == name {
			found = n
		}
	}
	return found
}

// comesTo waits until a node of the roll is in a state.
func (s *controlled) comesTo(node string, state v1alpha1.RollState) {
	s.Helper()
	s.within(3*time.Minute, node+" is "+string(state), func(ctx context.Context) (bool, string) {
		n := s.nodeOf(ctx, node)
		return n.State == state, fmt.Sprintf("%+v", n)
	})
}

// killedIn waits until a node of the roll is in a state, in which the test holds it, and kills the controller
// there. The next one sees the roll, and leaves the node in that state.
func (s *controlled) killedIn(node string, state v1alpha1.RollState) {
	s.Helper()
	s.comesTo(node, state)
	before := s.nodeOf(s.Context(), node)
	s.must(s.process.kill())
	s.must(s.process.start())
	patch := fmt.Appendf(nil, `{"spec": {"timeouts": {"work": "%dm"}}}`, 60+s.theRoll(s.Context()).Generation)
	s.must(s.objects.Patch(s.Context(), s.theRoll(s.Context()), client.RawPatch(types.MergePatchType, patch)))
	s.eventually("the controller runs", func(ctx context.Context) (bool, string) {
		r := s.theRoll(ctx)
		return r.Status.ObservedGeneration == r.Generation, fmt.Sprintf("%+v", r.Status)
	})
	after := s.nodeOf(s.Context(), node)
	if after.State != state || after.Drain != before.Drain || before.DrainUID != "" && after.DrainUID != before.DrainUID {
		s.Errorf("killed in %+v, and after that %+v", before, after)
	}
}

// made follows the pods of a namespace from now on, and counts those that were created, on a node if it is
// named.
func (w *world) made(namespace, node string) (count func() int) {
	w.Helper()
	list, err := w.client.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	was, seen := map[types.UID]bool{}, map[types.UID]bool{}
	for i := range list.Items {
		was[list.Items[i].UID] = true
	}
	changes, err := w.client.CoreV1().Pods(namespace).Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	w.must(err)
	var mutex sync.Mutex
	go func() {
		for event := range changes.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			mutex.Lock()
			if is && !was[pod.UID] && (node == "" || pod.Spec.NodeName == node) {
				seen[pod.UID] = true
			}
			mutex.Unlock()
		}
	}()
	return func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return len(seen)
	}
}

// busy is a node on which pods of an app run, and how many.
func (w *world) busy(app string) (node string, pods int) {
	w.Helper()
	list, err := w.client.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	w.must(err)
	for i := range list.Items {
		if node == "" {
			node = list.Items[i].Spec.NodeName
		}
		if list.Items[i].Spec.NodeName == node {
			pods++
		}
	}
	return node, pods
}

// unbudget deletes a budget.
func (w *world) unbudget(name string) {
	w.Helper()
	w.must(w.client.PolicyV1().PodDisruptionBudgets("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// late lets drivers that start on a node wait before they register, or go on.
func (p *players) late(is bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.waits = is
}

// publishing lets drivers that start on a node publish so many devices.
func (p *players) publishing(devices int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.devices = devices
}

// on is the player of the drivers of a node.
func (s rollSite) on(node string) *players {
	s.Helper()
	i := slices.IndexFunc(s.drivers, func(p *players) bool { return p.node == node })
	if i < 0 {
		s.Fatalf("no node %q", node)
	}
	return s.drivers[i]
}

// killed: the controller is killed while the roll waits in each state in turn: for a budget, for the new
// driver, for its slices, for the proof, and for the end of its pod. It goes on each time, and does nothing
// twice.
func (s rollSite) killed() {
	s.replicas("web", rolling, 3)
	s.budget("web", 3)
	node, consumers := s.busy("web")
	first := s.fleet.driverPods(s.Context(), rolling)
	drivers, proven, replicas := s.made(driverNamespace, node), s.made(proofs, ""), s.made("default", "")
	s.fleet.on(node).runtime.fail(driverNamespace)
	s.begin(append(s.proof(), "--nodes="+node)...)
	s.killedIn(node, v1alpha1.RollDraining)
	if n := replicas(); n != 0 {
		s.Errorf("%d pods were evicted in spite of the budget", n)
	}
	s.unbudget("web")
	s.killedIn(node, v1alpha1.RollReplacing)
	s.on(node).late(true)
	s.fleet.on(node).runtime.fail("")
	s.killedIn(node, v1alpha1.RollPublishing)
	s.on(node).late(false)
	s.killedIn(node, v1alpha1.RollProving)
	s.holdProof(s.nodeOf(s.Context(), node).Drain, `["example.com/hold"]`)
	s.fleet.succeed(proofs)
	s.killedIn(node, v1alpha1.RollRestoring)
	if s.theRoll(s.Context()).Status.CompletionTime != nil {
		s.Error("the roll is complete before its proof has gone")
	}
	s.holdProof(s.nodeOf(s.Context(), node).Drain, `null`)
	s.completed()
	s.replaced(first, node)
	s.ready("web", 3)
	if d, p, r := drivers(), proven(), replicas(); d != 1 || p != 1 || r != consumers {
		s.Errorf("%d pods of the driver, %d proofs and %d replicas were created, want 1, 1 and %d", d, p, r, consumers)
	}
}

// holdProof keeps the pod of a proof that has ended from going, or lets it go.
func (s *controlled) holdProof(name, finalizers string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"finalizers": %s}}`, finalizers)
	s.eventually("the proof is held", func(ctx context.Context) (bool, string) {
		_, err := s.client.CoreV1().Pods(proofs).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// uncordoned: a user deletes the drain of a node while its budget blocks it. The driver stays, and the
// node is drained again when a user continues.
func (s rollSite) uncordoned() {
	s.replicas("web", rolling, 3)
	s.budget("web", 3)
	node, _ := s.busy("web")
	first := s.fleet.driverPods(s.Context(), rolling)
	s.begin("--nodes=" + node)
	drain := s.blocked(node)
	s.must(s.objects.Delete(s.Context(), &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: drain}}))
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "was deleted, which lifts the cordon") {
		s.Error(message)
	}
	s.noRules(drain)
	s.replaced(first)
	s.unbudget("web")
	s.steer("continued", "--continue", rolling)
	s.completed()
	s.replaced(first, node)
}

// blocked waits until a budget blocks the drain of a node, and returns the drain.
func (s *controlled) blocked(node string) (drain string) {
	s.Helper()
	s.eventually("the budget blocks node "+node, func(ctx context.Context) (bool, string) {
		n := s.nodeOf(ctx, node)
		drain = n.Drain
		return n.State == v1alpha1.RollDraining && strings.Contains(n.Message, "BudgetBlocked"), fmt.Sprintf("%+v", n)
	})
	return drain
}

// noRules waits until no rule of a drain is left.
func (s *controlled) noRules(drain string) {
	s.Helper()
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, string) {
		n := s.rules(ctx, drain)
		return n == 0, fmt.Sprint(n, " rules")
	})
}

// fewer: the new driver publishes three devices, and the previous one had four. The node is held with the
// difference, and stays cordoned, until a user accepts it.
func (s rollSite) fewer() {
	const node = "f2"
	s.on(node).publishing(3)
	defer s.on(node).publishing(devicesEach)
	first := s.fleet.driverPods(s.Context(), rolling)
	s.begin("--nodes=" + node)
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "pool rolling.example.com/f2 has 3 devices, and had 4; continue to accept that") {
		s.Error(message)
	}
	if n := s.rules(s.Context(), s.nodeOf(s.Context(), node).Drain); n != devicesEach {
		s.Errorf("%d rules cordon the node, want %d", n, devicesEach)
	}
	s.steer("continued", "--continue", rolling)
	s.completed()
	s.replaced(first, node)
}

// undone: the new driver does not start, and a user takes the roll back: no cordon is left. When the driver
// is repaired, a pod uses a device of the node, and the roll is resumed.
func (s rollSite) undone() {
	const node = "f1"
	first := s.fleet.driverPods(s.Context(), rolling)
	s.fleet.on(node).runtime.fail(driverNamespace)
	s.begin("--nodes="+node, "--driver-timeout=10s")
	s.heldBy(v1alpha1.HeldNodeFailed)
	drain := s.nodeOf(s.Context(), node).Drain
	if n := s.rules(s.Context(), drain); n == 0 {
		s.Error("the node that has failed is not cordoned")
	}
	s.steer("undone", "--undo", rolling)
	s.heldBy(v1alpha1.HeldUndone)
	s.noRules(drain)
	if n := s.nodeOf(s.Context(), node); n.State != v1alpha1.RollUndone {
		s.Errorf("%+v", n)
	}
	s.fleet.on(node).runtime.fail("")
	s.uses(node, "after")
	s.steer("continued", "--resume", rolling)
	s.completed()
	s.replaced(first, node)
}

// uses runs a pod with a device of a node, and ends it.
func (s rollSite) uses(node, name string) {
	s.Helper()
	request := exactly("r", 1)
	request.Exactly.DeviceClassName = rolling
	claim := claimOf(name, request)
	s.createClaim(claim)
	p := pod("default", name, named(name), container("main", corev1.ResourceClaim{Name: "c"}))
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	s.run(p)
	s.endsInTime(name)
}

// gone: a node vanishes while it is drained: its kubelet ends, and a user deletes the Node. The roll leaves
// it out, takes its cordon back, and goes on with the next one; the pods of the node start elsewhere.
func (s rollSite) gone() {
	s.replicas("web", rolling, 3)
	s.budget("web", 3)
	node, _ := s.busy("web")
	other := "f1"
	if node == other {
		other = "f2"
	}
	first := s.fleet.driverPods(s.Context(), rolling)
	s.begin("--nodes="+node, "--nodes="+other, "--at-a-time=2")
	drain := s.blocked(node)
	s.fleet.on(node).kubelet.stop(s)
	s.fleet.on(node).runtime.reboot() // its driver ends, too
	s.must(s.client.CoreV1().Nodes().Delete(s.Context(), node, metav1.DeleteOptions{}))
	s.unbudget("web")
	status := s.completed().Status
	for name, want := range map[string]v1alpha1.RollState{node: v1alpha1.RollGone, other: v1alpha1.RollDone} {
		if n := s.nodeOf(s.Context(), name); n.State != want {
			s.Errorf("%+v, want %s", n, want)
		}
	}
	if status.Counts.Done != 1 || status.Counts.Failed != 0 {
		s.Errorf("%+v", status.Counts)
	}
	s.noRules(drain)
	s.within(3*time.Minute, "the garbage collector of pods removes the driver of the node", func(ctx context.Context) (bool, string) {
		pod := s.fleet.driverPods(ctx, rolling)[node]
		return pod == nil || pod.UID != first[node].UID, "it is there"
	})
	s.replaced(first, node, other)
	s.within(3*time.Minute, "the replicas run on the other nodes", func(ctx context.Context) (bool, string) {
		set, err := s.client.AppsV1().ReplicaSets("default").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == 3, fmt.Sprint(err, set.Status)
	})
	s.on(node).endedEarly() // it ended with its node
}

// commanded: a command does work on a node, which is cordoned meanwhile, and only then. A pod without
// devices stays.
func (s rollSite) commanded() {
	s.replicas("web", rolling, 3)
	s.budget("web", 2)
	fewest := s.watched("web")
	node, _ := s.busy("web")
	bystander := pod("default", "bystander", nil, container("main"))
	bystander.Spec.NodeName = node
	s.world.run(bystander)
	first := s.fleet.driverPods(s.Context(), rolling)
	found := filepath.Join(tempDir(s), "found")
	kubectl := inside.cluster.Kubectl(s.Context(), "get", "node").Args
	command := strings.Join(append(slices.Clone(kubectl[:len(kubectl)-2]), "get node $NODE -o jsonpath='{.spec.unschedulable}' > "+found), " ")
	s.steer("1 of 1 node done", "nodes", rolling+".example.com", "--name="+rolling, "--nodes="+node, "--command="+command, "--wait", "--timeout=5m")
	if was, err := os.ReadFile(found); err != nil || string(was) != "true" {
		s.Errorf("the node was unschedulable during the work: %q %v", was, err)
	}
	s.isCordoned(node, false)
	s.replaced(first)
	s.ready("web", 3)
	if n := fewest(); n < 2 {
		s.Errorf("%d replicas were ready, want 2", n)
	}
	if now, err := s.client.CoreV1().Pods("default").Get(s.Context(), "bystander", metav1.GetOptions{}); err != nil || now.DeletionTimestamp != nil {
		s.Errorf("a pod without devices was evicted: %v", err)
	}
}

// rebooted: the controller is killed while it waits for the work on a node, and a user uncordons the node:
// the roll stops. When a user continues it, the work ends with a reboot, so that the node is away, and
// without its slices when it is back. It stays cordoned until they are published. The controller is killed
// meanwhile, too.
func (s rollSite) rebooted() {
	const node = "f3"
	machine := s.fleet.on(node)
	s.steer("created", "nodes", rolling+".example.com", "--name="+rolling, "--nodes="+node, "--until=condition=KernelIsCurrent")
	s.killedIn(node, v1alpha1.RollWorking)
	s.isCordoned(node, true)
	if out, err := inside.cluster.Kubectl(s.Context(), "uncordon", node).CombinedOutput(); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "was uncordoned") {
		s.Error(message)
	}
	s.steer("continued", "--continue", rolling)
	s.comesTo(node, v1alpha1.RollWorking)
	s.isCordoned(node, true)
	machine.kubelet.stop(s)
	machine.runtime.reboot()
	s.kernelIsCurrent(node)
	s.killedIn(node, v1alpha1.RollPublishing)
	s.within(2*time.Minute, "the roll waits for the node", func(ctx context.Context) (bool, string) {
		n := s.nodeOf(ctx, node)
		if n.State != v1alpha1.RollPublishing {
			s.Fatalf("while the node is away: %+v", n)
		}
		return strings.Contains(n.Message, "is not Ready"), n.Message
	})
	s.on(node).late(true)
	machine.kubelet.start(s)
	s.within(2*time.Minute, "the roll waits for the devices", func(ctx context.Context) (bool, string) {
		n := s.nodeOf(ctx, node)
		return strings.Contains(n.Message, "has 0 devices, and had 4"), fmt.Sprintf("%+v", n)
	})
	s.on(node).late(false)
	s.completed()
	s.isCordoned(node, false)
	s.uses(node, "after")
}

// kernelIsCurrent is the condition that a monitor of nodes writes.
func (s rollSite) kernelIsCurrent(node string) {
	s.Helper()
	patch := []byte(`{"status": {"conditions": [{"type": "KernelIsCurrent", "status": "True", "reason": "Upgraded", "message": "6.12"}]}}`)
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
}

// isCordoned fails unless a node is unschedulable by the roll, or is not.
func (s rollSite) isCordoned(name string, want bool) {
	s.Helper()
	node, err := s.client.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	if node.Spec.Unschedulable != want || (node.Annotations[v1alpha1.RollAnnotation] != "") != want {
		s.Errorf("node %s is cordoned: %t, %v", name, node.Spec.Unschedulable, node.Annotations)
	}
}
