package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

const (
	// rolling is the name of a driver, its pods, its class and its roll.
	rolling = "rolling"
	// graceTime is how much longer than its grace period of a second a consumer is observed that cannot end.
	graceTime = 20 * time.Second
)

// A rollSite is a fleet with a driver, and the controller as a process.
type rollSite struct {
	*controlled
	fleet   fleet
	drivers []*players
	// version is that of the DaemonSet, of which the pods wait that a roll replaces.
	version *int
}

// TestRoll rolls a driver over three nodes with a kubelet each, in one way after the other. Before, without
// a roll, a consumer on a node is Terminating after its grace, because its driver ended first.
func TestRoll(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("rolls over three kubelets take minutes; make test-long runs them, as does DRA_STEWARD_LONG=1")
	}
	f := newFleet(t)
	w := f[0]
	s := rollSite{controlled: w.controlProcess(), fleet: f, version: ptr.To(1)}
	w.Cleanup(w.removeDrivers)
	s.drivers = f.play()
	w.Cleanup(w.removeConsumers)
	w.createClassOf(rolling)
	w.createDaemonSet(rolling, func(d *appsv1.DaemonSet) {
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		d.Spec.Template.Spec.NodeSelector = map[string]string{fleetLabel: "true"}
	})
	f.drives(rolling, "1")
	f.checkWithoutRoll(s.drivers)
	for _, part := range []struct {
		name string
		run  func(rollSite)
	}{
		{"stops where the new driver does not start", rollSite.stops},
		{"killed in each state", rollSite.killed},
		{"uncordoned by hand", rollSite.uncordoned},
		{"fewer devices", rollSite.fewer},
		{"undone", rollSite.undone},
		{"work by a command", rollSite.commanded},
		{"killed, uncordoned and rebooted during work", rollSite.rebooted},
		{"a node is gone", rollSite.gone},
	} {
		run := func(t *testing.T) { s.of(t).whole(part.run) }
		if !t.Run(part.name, run) {
			return // the nodes are not as the next one needs them
		}
	}
}

// of is the site for a part of the test.
func (s rollSite) of(t *testing.T) rollSite {
	s.fleet = s.fleet.of(t)
	control := *s.controlled
	control.world = s.fleet[0]
	s.controlled = &control
	return s
}

// whole runs a part of the test, and takes back what it leaves: its roll, and its consumers. No driver ends
// while a claim is prepared.
func (s rollSite) whole(part func(rollSite)) {
	begin := time.Now()
	part(s)
	s.steer("deleted", "--delete", rolling)
	s.eventually("nothing is left of the roll", func(ctx context.Context) (bool, string) {
		drains := &v1alpha1.DeviceDrainList{}
		err := s.objects.List(ctx, drains, client.MatchingLabels{v1alpha1.RollLabel: rolling})
		return err == nil && len(drains.Items) == 0 && s.theRoll(ctx).Name == "", fmt.Sprint(err, len(drains.Items), " drains")
	})
	s.removeConsumers()
	for _, p := range s.drivers {
		if n := p.endedEarly(); n > 0 {
			s.Errorf("on %s, %d drivers ended while claims were prepared", p.node, n)
		}
	}
	s.Logf("took %s", time.Since(begin).Round(time.Second))
}

// begin gives the DaemonSet another version, and creates a roll.
func (s rollSite) begin(args ...string) {
	s.Helper()
	*s.version++
	s.world.roll(rolling, strconv.Itoa(*s.version))
	s.steer("created", append([]string{rolling + ".example.com", "--name=" + rolling, "--driver-selector=" + driverNamespace + "/app=" + rolling,
		"--acknowledge=pods<=999,namespaces<=99"}, args...)...) // the guard counts the evictions of ten minutes
}

// proof are the flags of a proof.
func (s rollSite) proof() []string {
	return []string{"--proof-namespace=" + proofs, "--proof-class=" + rolling, "--proof-image=" + image}
}

// completed waits until the roll is complete.
func (s rollSite) completed() *v1alpha1.DeviceRoll {
	s.Helper()
	var r *v1alpha1.DeviceRoll
	s.within(5*time.Minute, "the roll is complete", func(ctx context.Context) (bool, string) {
		r = s.theRoll(ctx)
		return r.Status.CompletionTime != nil, fmt.Sprintf("%+v", r.Status)
	})
	return r
}

// stops: two of three replicas are ready at any time, no driver ends while a claim is prepared, and a pod
// with a claim succeeds on each node. The first node is a canary. The new driver does not start on the
// second: the roll stops there, and leaves the third alone, until the driver is repaired and a user
// continues the roll.
func (s rollSite) stops() {
	s.fleet.succeed(proofs)
	s.replicas("web", rolling, 3)
	s.budget("web", 2)
	fewest := s.watched("web")
	first := s.fleet.driverPods(s.Context(), rolling)
	s.begin(append(s.proof(), "--canary=1", "--driver-timeout=15s")...)
	s.heldBy(v1alpha1.HeldCanary)
	s.fleet.failing(driverNamespace)
	s.steer("continued", "--continue", rolling)
	if message := s.heldBy(v1alpha1.HeldNodeFailed); !strings.Contains(message, "is not ready") {
		s.Error(message)
	}
	s.fleet.checkStopped(s.controlled, first)
	s.fleet.failing("")
	s.steer("continued", "--continue", rolling)
	if n := s.completed().Status.Counts.Done; n != fleetSize {
		s.Errorf("%d nodes are done", n)
	}
	s.fleet.drives(rolling, strconv.Itoa(*s.version))
	s.replaced(first, "f1", "f2", "f3")
	s.ready("web", 3)
	if n := fewest(); n < 2 {
		s.Errorf("%d replicas were ready, want 2", n)
	}
}

// replaced fails unless exactly these nodes have another driver than at first.
func (s rollSite) replaced(first map[string]*corev1.Pod, nodes ...string) {
	s.Helper()
	pods := s.fleet.driverPods(s.Context(), rolling)
	for node, pod := range first {
		if is := pods[node] == nil || pods[node].UID != pod.UID; is != slices.Contains(nodes, node) {
			s.Errorf("the driver of %s is another one: %t", node, is)
		}
	}
}

// checkWithoutRoll: a driver ends before the consumer on its node, which is Terminating until the driver
// is back.
func (f fleet) checkWithoutRoll(drivers []*players) {
	w := f[0]
	w.Helper()
	w.consume(rolling, "stuck")
	pod, err := w.client.CoreV1().Pods("default").Get(w.Context(), "stuck", metav1.GetOptions{})
	w.must(err)
	node := pod.Spec.NodeName
	f.failing(driverNamespace)
	w.must(w.client.CoreV1().Pods(driverNamespace).Delete(w.Context(), f.driverPods(w.Context(), rolling)[node].Name, metav1.DeleteOptions{}))
	w.eventually("the driver has ended", func(context.Context) (bool, string) {
		for _, p := range drivers {
			if p.node == node {
				return p.drives() == 0, ""
			}
		}
		return false, "no such node"
	})
	w.deleteConsumer("stuck")
	for end := time.Now().Add(graceTime); time.Now().Before(end); {
		if is, state := w.isTerminating(w.Context(), "stuck"); !is {
			w.Fatalf("without a roll, the consumer is not Terminating: %s", state)
		}
		select {
		case <-w.Context().Done():
		case <-time.After(time.Second):
		}
	}
	early := 0
	for _, p := range drivers {
		early += p.endedEarly()
	}
	f.failing("")
	if early != 1 {
		w.Errorf("%d drivers ended while a claim was prepared, want 1", early)
	}
	w.gone(2*time.Minute, "default", "stuck")
	w.must(w.client.ResourceV1().ResourceClaims("default").Delete(w.Context(), "stuck", metav1.DeleteOptions{}))
	f.drives(rolling, "1")
}

// checkStopped: of three nodes one is done, one has failed and is the only one that is cordoned, and
// one is as it was.
func (f fleet) checkStopped(s *controlled, first map[string]*corev1.Pod) {
	f[0].Helper()
	pods, untouched := f.driverPods(s.Context(), rolling), 0
	for _, n := range s.theRoll(s.Context()).Status.Nodes {
		isNew := pods[n.Name] == nil || pods[n.Name].UID != first[n.Name].UID
		switch n.State {
		case v1alpha1.RollDone, v1alpha1.RollFailed:
			if !isNew {
				s.Errorf("node %s is %s with its first driver", n.Name, n.State)
			}
		case v1alpha1.RollWaiting:
			untouched++
			if isNew || n.Drain != "" && n.DrainUID != "" {
				s.Errorf("node %s is not as it was: %+v", n.Name, n)
			}
		default:
			s.Errorf("node %s is %s", n.Name, n.State)
		}
	}
	drains := &v1alpha1.DeviceDrainList{}
	s.must(s.objects.List(s.Context(), drains, client.MatchingLabels{v1alpha1.RollLabel: rolling}))
	if counts := s.theRoll(s.Context()).Status.Counts; counts.Done != 1 || counts.Failed != 1 || untouched != 1 || len(drains.Items) != 1 {
		s.Errorf("%+v, %d untouched, %d drains; want one each", counts, untouched, len(drains.Items))
	}
}

// steer runs dra-steward roll, which has to write a text.
func (s *controlled) steer(want string, args ...string) {
	s.Helper()
	var out bytes.Buffer
	if code := s.command(&out, append([]string{"roll"}, args...)...); code != cmdutil.ExitClean || !strings.Contains(out.String(), want) {
		s.Fatalf("roll %v: exit code %d, %s", args, code, out.String())
	}
}

func (s *controlled) theRoll(ctx context.Context) *v1alpha1.DeviceRoll {
	r := &v1alpha1.DeviceRoll{}
	if err := s.objects.Get(ctx, client.ObjectKey{Name: rolling}, r); err != nil && !apierrors.IsNotFound(err) {
		s.Log(err)
	}
	return r
}

// heldBy waits until the roll is held, and returns why.
func (s *controlled) heldBy(reason string) (message string) {
	s.Helper()
	s.within(3*time.Minute, "held by "+reason, func(ctx context.Context) (bool, string) {
		status := s.theRoll(ctx).Status
		held := meta.FindStatusCondition(status.Conditions, v1alpha1.RollHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != reason {
			return false, fmt.Sprintf("%+v", status)
		}
		message = held.Message
		return true, ""
	})
	s.Logf("held by %s: %s", reason, message)
	return message
}

// removeConsumers ends the pods of the test while the drivers still run.
func (w *world) removeConsumers() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	all := metav1.ListOptions{}
	for _, err := range []error{
		w.client.AppsV1().ReplicaSets("default").DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, all),
		w.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		w.client.PolicyV1().PodDisruptionBudgets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		w.client.ResourceV1().ResourceClaimTemplates("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	} {
		if err != nil {
			w.Error(err)
		}
	}
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		pods, err := w.client.CoreV1().Pods("default").List(ctx, all)
		claims, errs := w.client.ResourceV1().ResourceClaims("default").List(ctx, all)
		return err == nil && errs == nil && len(pods.Items)+len(claims.Items) == 0, nil
	})
	if err != nil {
		w.Errorf("pods or claims are left: %v", err)
	}
}

// drives counts the drivers that run on the node.
func (p *players) drives() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.running)
}

// endedEarly counts the drivers that have ended while claims were prepared, since the last call.
func (p *players) endedEarly() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	defer func() { p.early = 0 }()
	return p.early
}

// failing lets the containers of a namespace fail that start from now on. An empty name is none.
func (f fleet) failing(namespace string) {
	for _, w := range f {
		w.runtime.fail(namespace)
	}
}

// succeed lets the containers of a namespace succeed.
func (f fleet) succeed(namespace string) {
	ctx, stop := context.WithCancel(f[0].Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			for _, w := range f {
				w.runtime.succeed(namespace)
			}
		}
	}()
	f[0].Cleanup(func() {
		stop()
		<-done
	})
}

// succeed ends the containers of a namespace as if their processes had succeeded.
func (r *containerRuntime) succeed(namespace string) {
	r.RuntimeService.Lock()
	defer r.RuntimeService.Unlock()
	for _, c := range r.RuntimeService.Containers {
		if c.Labels["io.kubernetes.pod.namespace"] == namespace && c.State == cri.ContainerState_CONTAINER_RUNNING {
			c.State, c.FinishedAt, c.ExitCode = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), 0
		}
	}
}
