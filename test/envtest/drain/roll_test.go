package drain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// The namespaces of drivers and proofs, in which the controller has rights.
const driversNamespace, proofsNamespace = "roll-drivers", "roll-proofs"

// createNamespaces creates the namespaces in which the chart grants rights.
func createNamespaces(ctx context.Context) error {
	for _, name := range []string{driversNamespace, proofsNamespace, reactionProofs} {
		_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// A playedDriver publishes devices for the pods of a DaemonSet, which the real controller-manager
// creates: a pod that is ready publishes a new generation of the pool of its node.
type playedDriver struct {
	site
	mutex sync.Mutex
	// broken are nodes on which new pods never become ready; fewer those on which they publish one
	// device, late those on which they are ready and publish a part of the pool only.
	broken, fewer, late map[string]bool
	// published is the pod that has published last, by node, and order what has gone wrong.
	published map[string]types.UID
	order     []string
	first     map[string]types.UID
}

const (
	// perNode is how many devices it publishes on each node.
	perNode = 2
	// rollTime is how long a roll over three nodes takes at most: rolls of other tests work on the same
	// nodes, one at a time.
	rollTime = 10 * time.Minute
)

// drive runs a driver on the nodes 0 to 2, as a DaemonSet with OnDelete whose pods are ready when the
// played driver says so.
func (s site) drive() *playedDriver {
	s.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: driversNamespace, Name: s.name}}
	labels := map[string]string{"app": s.name}
	set.Spec = appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{
		ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: "example.com/started"}},
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers:                    []corev1.Container{{Name: "driver", Image: "registry.example.com/driver:1"}},
	}
	do(s, s.create(c.AppsV1().DaemonSets(driversNamespace).Create(s.Context(), set, metav1.CreateOptions{})))
	d := &playedDriver{site: s, broken: map[string]bool{}, fewer: map[string]bool{}, late: map[string]bool{}, published: map[string]types.UID{}, first: map[string]types.UID{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			if err := d.play(ctx); err != nil && ctx.Err() == nil {
				d.wrong(err.Error())
			}
		}
	}()
	s.Cleanup(func() {
		stop()
		<-done
		_ = c.AppsV1().DaemonSets(driversNamespace).Delete(context.Background(), s.name, metav1.DeleteOptions{})
	})
	s.within(rollTime, "the driver publishes on three nodes", func(context.Context) (bool, error) {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		for _, node := range []string{"node-0", "node-1", "node-2"} {
			if d.published[node] == "" {
				return false, nil
			}
			d.first[node] = d.published[node]
		}
		return true, nil
	})
	return d
}

func (d *playedDriver) wrong(text string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(d.order) < 8 {
		d.order = append(d.order, text)
	}
}

// play is what the driver does now. A pod that ends must have no consumers on its node.
func (d *playedDriver) play(ctx context.Context) error {
	pods, err := c.CoreV1().Pods(driversNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + d.name})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		node := pod.Spec.NodeName
		d.mutex.Lock()
		known, broken, late := d.published[node] == pod.UID, d.broken[node], d.late[node]
		devices := perNode
		if d.fewer[node] {
			devices = 1
		}
		d.mutex.Unlock()
		switch {
		case node == "":
		case pod.DeletionTimestamp != nil:
			if err := d.consumers(ctx, node); err != nil {
				d.wrong(err.Error())
			}
		case known || broken || pod.Status.Phase != corev1.PodRunning:
		default:
			patch := `{"status": {"conditions": [{"type": "example.com/started", "status": "True"}]}}`
			_, err := c.CoreV1().Pods(driversNamespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
			if err != nil {
				return err
			}
			if late {
				if err := d.publishPart(ctx, node); err != nil {
					return err
				}
				continue
			}
			if err := d.tryPublish(ctx, node, time.Now().UnixNano(), devices); err != nil {
				return err
			}
			d.mutex.Lock()
			d.published[node] = pod.UID
			d.mutex.Unlock()
		}
	}
	return nil
}

// consumers is an error if pods of the test use devices on a node.
func (d *playedDriver) consumers(ctx context.Context, node string) error {
	pods, err := c.CoreV1().Pods(d.name).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		return fmt.Errorf("the driver on %s ends before pod %s", node, pods.Items[i].Name)
	}
	return nil
}

// set changes what the driver does on a node.
func (d *playedDriver) set(change func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	change()
}

// replaced fails unless the pods on exactly these nodes are new, and the order was right.
func (d *playedDriver) replaced(nodes ...string) {
	d.Helper()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for node, first := range d.first {
		if is := d.published[node] != first; is != slices.Contains(nodes, node) {
			d.Errorf("the driver on %s is new: %t", node, is)
		}
	}
	for _, text := range d.order {
		d.Error(text)
	}
}

func (s site) rolls() dynamic.ResourceInterface {
	untyped, err := dynamic.NewForConfig(cluster.Config())
	do(s, err)
	return untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceRollResource))
}

// roll runs the command, which creates a roll of the test's name.
func (s site) roll(args ...string) {
	s.Helper()
	args = append([]string{s.driver, "--name=" + s.name, "--driver-selector=" + driversNamespace + "/app=" + s.name, "--acknowledge=" + otherTests}, args...)
	expectOf(s.T, "roll", cmdutil.ExitClean, []string{"deviceroll " + s.name + " created"}, args...)
	s.removeRoll()
}

func (s site) removeRoll() {
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		if s.Failed() {
			s.Logf("roll: %+v", s.theRoll(ctx).Status)
		}
		_ = s.rolls().Delete(ctx, s.name, metav1.DeleteOptions{})
	})
}

func (s site) theRoll(ctx context.Context) *v1alpha1.DeviceRoll {
	r := &v1alpha1.DeviceRoll{}
	object, err := s.rolls().Get(ctx, s.name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, r)
	}
	if err != nil {
		s.Logf("roll %s: %v", s.name, err)
	}
	return r
}

// completed waits until the roll is complete, and fails if something is left of it.
func (s site) completed() *v1alpha1.DeviceRoll {
	s.Helper()
	var r *v1alpha1.DeviceRoll
	s.within(rollTime, "the roll is complete", func(ctx context.Context) (bool, error) {
		r = s.theRoll(ctx)
		return r.Status.CompletionTime != nil, nil
	})
	s.noDrains()
	return r
}

func (s site) noDrains() {
	s.Helper()
	s.within(rollTime, "no drain is left", func(ctx context.Context) (bool, error) {
		list, err := drains.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.RollLabel + "=" + s.name})
		return err == nil && len(list.Items) == 0, err
	})
}

// heldBy waits until the roll is held.
func (s site) heldBy(reason string) (message string) {
	s.Helper()
	s.within(rollTime, "held by "+reason, func(ctx context.Context) (bool, error) {
		held := meta.FindStatusCondition(s.theRoll(ctx).Status.Conditions, v1alpha1.RollHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != reason {
			return false, nil
		}
		message = held.Message
		return true, nil
	})
	return message
}

func (s site) nodeOf(name string) (found v1alpha1.RollNode) {
	for _, n := range s.theRoll(s.Context()).Status.Nodes {
		if n.Name == name {
			found = n
		}
	}
	return found
}

// prove lets the pods of proofs of the test succeed.
func (s site) prove() {
	ctx, stop := context.WithCancel(context.Background())
	s.Cleanup(stop)
	go func() {
		for ticker := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			pods, err := c.CoreV1().Pods(proofsNamespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.RollLabel + "=" + s.name})
			if err != nil {
				continue
			}
			for i := range pods.Items {
				if pods.Items[i].Status.Phase == corev1.PodRunning {
					_, _ = c.CoreV1().Pods(proofsNamespace).Patch(ctx, pods.Items[i].Name, types.MergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status")
				}
			}
		}
	}()
}

// proof are the flags of a proof.
func (s site) proof() []string {
	return []string{"--proof-namespace=" + proofsNamespace, "--proof-class=" + s.driver, "--proof-image=registry.example.com/proof:1"}
}

// TestRoll rolls a driver over three nodes. Two of three replicas are ready at any time, no pod of the
// driver ends before the consumers on its node, and a pod with a claim has to succeed on each node
// before it is used again. The canary waits.
func TestRoll(t *testing.T) {
	s := newSite(t, "roll", perNode)
	d := s.drive()
	s.replicas("web", 3, "")
	s.budget("web", "web", 2)
	fewest := s.watched("web")
	s.prove()
	args := append(s.proof(), "--canary=1")
	s.roll(args...)
	if message := s.heldBy(v1alpha1.HeldCanary); !strings.Contains(message, "1 node is done") {
		t.Error(message)
	}
	if n := s.theRoll(t.Context()).Status.Counts.Done; n != 1 {
		t.Errorf("%d nodes are done", n)
	}
	expectOf(t, "roll", cmdutil.ExitClean, []string{"continued", "3 of 3 nodes done"}, "--continue", s.driver, "--wait", "--timeout=5m")
	s.completed()
	d.replaced("node-0", "node-1", "node-2")
	if n := fewest(); n < 2 {
		t.Errorf("%d replicas were ready", n)
	}
	once(t, s.name)
	expectOf(t, "roll", cmdutil.ExitFailed, []string{"is complete since"}, s.driver, "--name="+s.name, "--driver-selector="+driversNamespace+"/app="+s.name)
	expectOf(t, "roll", cmdutil.ExitClean, []string{"3 nodes, at most 1 at a time", "1. node-", "lands on node-", "took", "each in previous rolls"}, s.driver, "--driver-selector="+driversNamespace+"/app="+s.name, "--dry-run")
}

// TestRollStops: the driver does not start on one node. The roll stops there and leaves the others
// alone; after a repair, one command continues it.
func TestRollStops(t *testing.T) {
	s := newSite(t, "rollstops", perNode)
	d := s.drive()
	s.replicas("web", 1, "")
	d.set(func() { d.broken["node-0"], d.broken["node-1"], d.broken["node-2"] = true, true, true })
	s.roll("--driver-timeout=10s")
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "is not ready") {
		t.Error(message)
	}
	d.replaced()
	s.event(metav1.NamespaceDefault, v1alpha1.DeviceRollKind, s.name, string(v1alpha1.RollFailed))
	if counts := s.theRoll(t.Context()).Status.Counts; counts.Failed != 1 || counts.Done != 0 {
		t.Errorf("%+v", counts)
	}
	list, err := drains.List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.RollLabel + "=" + s.name})
	do(s, err)
	if len(list.Items) != 1 {
		t.Errorf("%d drains", len(list.Items))
	}
	d.set(func() { clear(d.broken) })
	expectOf(t, "roll", cmdutil.ExitClean, []string{"continued"}, "--continue", s.driver)
	s.completed()
	d.replaced("node-0", "node-1", "node-2")
}

// TestRollUndone: a roll that has stopped is undone, and then skips the node.
func TestRollUndone(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "rollundone", perNode)
	d := s.drive()
	d.set(func() { d.broken["node-0"] = true })
	s.roll("--driver-timeout=10s")
	s.heldBy(v1alpha1.HeldNodeFailed)
	expectOf(t, "roll", cmdutil.ExitClean, []string{"undone"}, "--undo", s.name)
	s.heldBy(v1alpha1.HeldUndone)
	s.noDrains()
	if n := s.nodeOf("node-0"); n.State != v1alpha1.RollUndone {
		t.Errorf("%+v", n)
	}
	expectOf(t, "roll", cmdutil.ExitFailed, []string{"has no such node"}, "--skip=node-9", s.name)
	expectOf(t, "roll", cmdutil.ExitClean, []string{"leaves out node-0"}, "--skip=node-0", s.name)
	expectOf(t, "roll", cmdutil.ExitClean, nil, "--resume", s.name)
	if counts := s.completed().Status.Counts; counts.Done != 2 || counts.Skipped != 1 {
		t.Errorf("%+v", counts)
	}
	d.replaced("node-1", "node-2")
}

// TestRollFewer: the new driver publishes fewer devices on a node. The roll is held with the
// difference, and continues when a user accepts it.
func TestRollFewer(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "rollfewer", perNode)
	d := s.drive()
	d.set(func() { d.fewer["node-0"] = true })
	s.roll("--nodes=node-0")
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "has 1 device, and had 2") {
		t.Error(message)
	}
	expectOf(t, "roll", cmdutil.ExitClean, nil, "--continue", s.name)
	s.completed()
}

// TestRollUncordoned: a user deletes the drain of a node while its budget blocks it. The driver stays.
func TestRollUncordoned(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "rolluncordoned", perNode)
	d := s.drive()
	s.replicas("web", 6, "") // all devices are held, so that each node is blocked
	s.budget("web", "web", 6)
	s.roll("--nodes=node-1")
	drain := ""
	s.within(rollTime, "the node is drained", func(context.Context) (bool, error) {
		drain = s.nodeOf("node-1").Drain
		return s.nodeOf("node-1").DrainUID != "", nil
	})
	s.wait(drain, "Blocked=True BudgetBlocked")
	do(s, drains.Delete(t.Context(), drain, metav1.DeleteOptions{}))
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "was deleted") {
		t.Error(message)
	}
	d.replaced()
	do(s, c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.scale("web", 4)
	expectOf(t, "roll", cmdutil.ExitClean, nil, "--continue", s.name)
	s.completed()
	d.replaced("node-1")
}

// ghost is a node that the test keeps ready until it is deleted.
func (s site) ghost(name string) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	do(s, s.create(c.CoreV1().Nodes().Create(s.Context(), node, metav1.CreateOptions{})))
	ctx, stop := context.WithCancel(context.Background())
	s.Cleanup(func() {
		stop()
		_ = c.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	go func() {
		for ticker := time.NewTicker(5 * time.Second); ctx.Err() == nil; <-ticker.C {
			patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": %q}]}}`, time.Now().UTC().Format(time.RFC3339))
			_, _ = c.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		}
	}()
	s.publishOn(name, 1, perNode)
	s.within(rollTime, name+" is ready", func(ctx context.Context) (bool, error) {
		node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}), err
	})
}

// TestRollNodeGone: a node vanishes while the pod of its driver is replaced. It is left out.
func TestRollNodeGone(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "rollgone", perNode)
	d := s.drive()
	s.ghost("rollgone-ghost") // without a kubelet, the pod of the driver never runs there
	s.roll("--nodes=rollgone-ghost", "--nodes=node-0")
	s.within(rollTime, "the driver of the ghost is replaced", func(context.Context) (bool, error) {
		return s.nodeOf("rollgone-ghost").State == v1alpha1.RollReplacing, nil
	})
	do(s, c.CoreV1().Nodes().Delete(t.Context(), "rollgone-ghost", metav1.DeleteOptions{}))
	s.completed()
	if n := s.nodeOf("rollgone-ghost"); n.State != v1alpha1.RollGone {
		t.Errorf("%+v", n)
	}
	d.replaced("node-0")
}

// TestRollNodes: work on a node, by a command. The node is cordoned meanwhile, and only then.
func TestRollNodes(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "rollnodes", perNode)
	s.ghost("rollnodes-ghost")
	s.removeRoll()
	done := filepath.Join(t.TempDir(), "done")
	kubectl := cluster.Kubectl(t.Context(), "get", "node").Args
	command := strings.Join(append(slices.Clone(kubectl[:len(kubectl)-2]), "get node $NODE -o jsonpath='{.spec.unschedulable}' > "+done), " ")
	expectOf(t, "roll", cmdutil.ExitClean, []string{"1 of 1 node done"}, "nodes", s.driver, "--name="+s.name, "--nodes=rollnodes-ghost", "--command="+command, "--wait", "--timeout=3m")
	if was, err := os.ReadFile(done); err != nil || string(was) != "true" {
		t.Errorf("the node was unschedulable during the work: %q %v", was, err)
	}
	s.completed()
	node, err := c.CoreV1().Nodes().Get(t.Context(), "rollnodes-ghost", metav1.GetOptions{})
	do(s, err)
	if node.Spec.Unschedulable || node.Annotations[v1alpha1.RollAnnotation] != "" {
		t.Errorf("the node is left cordoned: %+v", node.Spec)
	}
}

// TestRollNodesByHand: a user uncordons the node. The work is not done there; a roll that is deleted
// leaves nothing behind.
func TestRollNodesByHand(t *testing.T) {
	s := newSite(t, "rollbyhand", perNode)
	s.ghost("rollbyhand-ghost")
	s.removeRoll()
	expectOf(t, "roll", cmdutil.ExitClean, nil, "nodes", s.driver, "--name="+s.name, "--nodes=rollbyhand-ghost", "--until=annotation=example.com/kernel=6.12")
	working := func(context.Context) (bool, error) {
		return s.nodeOf("rollbyhand-ghost").State == v1alpha1.RollWorking, nil
	}
	s.within(rollTime, "work", working)
	if out, err := cluster.Kubectl(t.Context(), "uncordon", "rollbyhand-ghost").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "was uncordoned") {
		t.Error(message)
	}
	expectOf(t, "roll", cmdutil.ExitClean, nil, "--continue", s.name)
	s.within(rollTime, "work", working)
	expectOf(t, "roll", cmdutil.ExitClean, []string{"deleted"}, "--delete", s.name)
	s.noDrains()
	s.within(rollTime, "the node is uncordoned", func(ctx context.Context) (bool, error) {
		node, err := c.CoreV1().Nodes().Get(ctx, "rollbyhand-ghost", metav1.GetOptions{})
		return err == nil && !node.Spec.Unschedulable && node.Annotations[v1alpha1.RollAnnotation] == "", err
	})
}

// TestRollKilled: the controller is killed in each state that a node of the roll comes into. Each pod of
// the driver is deleted once, and each consumer evicted once.
func TestRollKilled(t *testing.T) {
	s := newSiteAlone(t, "rollkilled", perNode)
	d := s.drive()
	s.replicas("web", 3, "")
	s.budget("web", "web", 2)
	fewest := s.watched("web")
	s.prove()
	s.roll(s.proof()...)
	seen := map[v1alpha1.RollState]int{}
	s.within(rollTime, "the roll is complete", func(ctx context.Context) (bool, error) {
		r := s.theRoll(ctx)
		for _, n := range r.Status.Nodes {
			if n.State != v1alpha1.RollWaiting && seen[n.State] == 0 {
				seen[n.State]++
				return false, errors.Join(steward.kill(), steward.start())
			}
		}
		return r.Status.CompletionTime != nil, nil
	})
	t.Logf("killed in %v", seen)
	for _, state := range []v1alpha1.RollState{v1alpha1.RollDraining, v1alpha1.RollReplacing, v1alpha1.RollProving} {
		if seen[state] == 0 {
			t.Errorf("not killed in the state %s", state)
		}
	}
	s.completed()
	d.replaced("node-0", "node-1", "node-2")
	deleted := 0
	for _, e := range asked(t, driversNamespace, "pods", "") {
		if e.Verb == "delete" && e.ResponseStatus.Code < 300 && strings.HasPrefix(e.ObjectRef.Name, s.name+"-") {
			deleted++
		}
	}
	if deleted != 3 {
		t.Errorf("%d pods of the driver were deleted, want 3", deleted)
	}
	if n := fewest(); n < 2 {
		t.Errorf("%d replicas were ready", n)
	}
	once(t, s.name)
}
