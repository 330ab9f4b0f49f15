package placement_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// running puts pods where they land in a world.
func running(t *testing.T, world placement.Cluster, pods ...*corev1.Pod) placement.Cluster {
	t.Helper()
	s := world.Begin()
	results, err := s.Place(t.Context(), pods...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		p := r.Pod.DeepCopy()
		p.Spec.NodeName = r.Node
		for _, claim := range r.Claims {
			if len(claim.OwnerReferences) > 0 {
				p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: "gpu", ResourceClaimName: &claim.Name})
			}
		}
		world.Pods = append(world.Pods, p)
	}
	world.Claims = s.Claims()
	return world
}

func rule(pool string) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Pool: &pool}, Taint: resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
}

func tainted(world placement.Cluster, pool string) placement.Change {
	world.View = placement.With(world.View, rule(pool))
	return placement.Change{After: world}
}

// kept returns a list of objects as informers with the transform Keep have them.
func kept[T any](t *testing.T, objects []T) (all []T) {
	t.Helper()
	for _, object := range objects {
		kept, err := placement.Keep(object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kept.(T))
	}
	return all
}

// keptWorld is a world of kept objects.
func keptWorld(t *testing.T, world placement.Cluster) placement.Cluster {
	t.Helper()
	world.Claims, world.Pods, world.Nodes, world.Templates = kept(t, world.Claims), kept(t, world.Pods), kept(t, world.Nodes), kept(t, world.Templates)
	return world
}

// summary is one word for each move. The answer is the same for kept objects.
func summary(t *testing.T, world placement.Cluster, change placement.Change) (all []string, answer placement.Answer) {
	t.Helper()
	answer, err := world.Predict(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	less := change
	less.After, less.Leaving = keptWorld(t, change.After), nil
	for _, l := range change.Leaving {
		less.Leaving = append(less.Leaving, placement.Leaving{Pod: kept(t, []*corev1.Pod{l.Pod})[0], After: l.After})
	}
	if got, err := keptWorld(t, world).Predict(t.Context(), less); err != nil || !reflect.DeepEqual(got, answer) {
		t.Errorf("with kept objects: %+v, want %+v; %v", got, answer, err)
	}
	for _, m := range answer.Moves {
		text := fmt.Sprintf("%s %s", m.Pod, m.Verdict)
		if m.Reason != nil && m.Verdict == placement.Never {
			text += " " + string(m.Reason.Kind)
		}
		if m.Contested {
			text += " contested"
		}
		all = append(all, text)
	}
	return all, answer
}

func two(first, second int, templates ...*resourceapi.ResourceClaimTemplate) placement.Cluster {
	return placement.Cluster{View: tracker.Merge(class(), slice("n1", first), slice("n2", second)), Nodes: []*corev1.Node{node("n1"), node("n2")}, Templates: templates}
}

func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func TestPodsCompete(t *testing.T) {
	world := running(t, two(3, 1, template("one", 1)), on(pod("a", "one"), "n1"), on(pod("b", "one"), "n1"), on(pod("c", "one"), "n1"))
	got, answer := summary(t, world, tainted(world, "n1"))
	expect(t, got, "a Lands contested", "b Waits contested", "c Waits contested")
	if answer.Least != 1 || answer.Most != 1 || answer.Stranded() != 2 {
		t.Errorf("%d to %d land, %d are stranded", answer.Least, answer.Most, answer.Stranded())
	}
}

func TestTolerationsEnd(t *testing.T) {
	late := template("late", 1, func(spec *resourceapi.ResourceClaimSpec) {
		spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "k", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To(int64(60))}}
	})
	world := running(t, two(3, 1, template("one", 1), late), on(pod("late", "late"), "n1"), on(pod("now", "one"), "n1"))
	got, answer := summary(t, world, tainted(world, "n1"))
	// What tolerates the taint for a while lands on the tainted device again.
	expect(t, got, "now Lands", "late Lands")
	if answer.Moves[1].After.Duration != time.Minute {
		t.Errorf("leaves after %s", answer.Moves[1].After)
	}
	if again := answer.Moves[1].Again; again == nil || again.Duration != time.Minute || answer.Moves[0].Again != nil {
		t.Errorf("evicted again after %v, the other after %v", again, answer.Moves[0].Again)
	}
}

// TestLongTolerations: seconds that are more than a duration holds are the longest one, not at once.
func TestLongTolerations(t *testing.T) {
	for _, seconds := range []int64{9_300_000_000, 1<<63 - 1} {
		long := template("long", 1, func(spec *resourceapi.ResourceClaimSpec) {
			spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "k", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: &seconds}}
		})
		world := running(t, two(3, 1, template("one", 1), long), on(pod("late", "long"), "n1"), on(pod("now", "one"), "n1"))
		got, answer := summary(t, world, tainted(world, "n1"))
		expect(t, got, "now Lands", "late Lands")
		if after := answer.Moves[1].After.Duration; after < 292*365*24*time.Hour {
			t.Errorf("%d s: leaves after %s", seconds, after)
		}
	}
}

func TestWhoCreatesThePodAgain(t *testing.T) {
	named := func(name, owner string) *corev1.Pod {
		p := on(pod(name, ""), "n1")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		p.OwnerReferences[0].Kind = owner
		if owner == "" {
			p.OwnerReferences = nil
		}
		return p
	}
	world := two(4, 4)
	pods := []*corev1.Pod{named("alone", ""), named("replicas", "ReplicaSet"), named("state", "StatefulSet")}
	for _, p := range pods {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: p.Name, UID: types.UID(p.Name)}}
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
		world.Claims = append(world.Claims, claim)
	}
	world = running(t, world, pods...)
	got, _ := summary(t, world, tainted(world, "n1"))
	expect(t, got, "alone Never NoOwner", "replicas Never Kept", "state Lands")
	// Pods of a node that is away have ended: their claims are given back.
	got, _ = summary(t, world, world.WithoutNodes("n1"))
	expect(t, got, "alone Never NoOwner", "replicas Lands", "state Lands")
}

func TestWaitingPodsCompeteAndAreApart(t *testing.T) {
	world := running(t, two(1, 0, template("one", 1)), on(pod("a", "one"), "n1"), pod("waits", "one"))
	got, answer := summary(t, world, placement.Change{After: world, Leaving: world.On("n1")})
	if len(got) != 1 || len(answer.Waiting) != 1 || answer.Least != 0 || answer.Most != 1 {
		t.Errorf("%q, %+v", got, answer)
	}
}

func TestRestarted(t *testing.T) {
	world := running(t, two(1, 0, template("one", 1)), pod("a", "one"))
	other := class()
	other.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "other"`}}}
	after := world
	after.View = placement.With(world.View, other)
	got, answer := summary(t, world, placement.Change{After: after, Restarted: true})
	expect(t, got, "a Waits")
	if !answer.Moves[0].IfRestarted {
		t.Error("the pod keeps running")
	}
}

// endless is a template for which the allocator tries all combinations of a node's devices, in vain.
func endless(name string, count int) *resourceapi.ResourceClaimTemplate {
	return template(name, int64(count), func(s *resourceapi.ResourceClaimSpec) {
		for _, name := range []string{"b", "c"} {
			s.Devices.Requests = append(s.Devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1}})
		}
		s.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"b", "c"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/none"))}}
	})
}

// TestSearchIsBounded: waiting pods for which the allocator searches for days do not keep an answer about others.
func TestSearchIsBounded(t *testing.T) {
	world := two(1, 24, template("one", 1))
	world = running(t, world, on(pod("leaves", "one"), "n1"))
	for i := range 8 {
		name := fmt.Sprint("endless-", i)
		world.Templates, world.Pods = append(world.Templates, endless(name, 8+i)), append(world.Pods, pod(name, name))
	}
	got, answer := summary(t, world, tainted(world, "n1"))
	expect(t, got, "leaves Lands")
	for _, m := range answer.Waiting {
		if m.Reason == nil || m.Reason.Kind != placement.Slow || m.Reason.Message != "the search for devices takes too long" {
			t.Errorf("%s: %+v", m.Pod, m.Reason)
		}
	}
}

// TestContextEnds: an answer ends with its context, whatever keeps it.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plain := two(1, 1)
	for i := range 3 {
		plain.Pods = append(plain.Pods, pod(fmt.Sprint(i), ""))
	}
	grouped := two(1, 1)
	grouped.Pods = []*corev1.Pod{pod("a", "missing")}
	grouped.Pods[0].Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
	for _, world := range []placement.Cluster{plain, grouped} {
		if _, err := world.Predict(ctx, tainted(world, "n1")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// TestPodsThatWaitWithAPlace: kube-scheduler does not place them now, so they keep no device from a pod that leaves.
func TestPodsThatWaitWithAPlace(t *testing.T) {
	world := running(t, two(1, 1, template("one", 1)), on(pod("leaves", "one"), "n1"))
	other := pod("of-another-scheduler", "one")
	other.Spec.Priority = ptr.To(int32(1000))
	world.Pods = append(world.Pods, other)
	got, answer := summary(t, world, tainted(world, "n1"))
	expect(t, got, "leaves Lands")
	if len(answer.Waiting) != 1 || answer.Waiting[0].Verdict != placement.Waits {
		t.Errorf("waiting: %+v", answer.Waiting)
	}
}

// TestPodsThatTerminateSlowly: a pod that is being deleted gives its device to another only if it ends soon.
func TestPodsThatTerminateSlowly(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		deleted time.Duration // the end of the grace period, from now
		at      time.Time
		want    string
	}{
		{30 * time.Second, now, "leaves Lands"},
		{-time.Minute, now, "leaves Lands"},
		{-time.Hour, now, "leaves Waits"},
		{24 * time.Hour, now, "leaves Waits"},
		{-time.Hour, time.Time{}, "leaves Lands"},
	} {
		world := running(t, two(1, 1, template("one", 1)), on(pod("leaves", "one"), "n1"), on(pod("ends", "one"), "n2"))
		world.Now, world.Pods[1].DeletionTimestamp = tt.at, &metav1.Time{Time: now.Add(tt.deleted)}
		got, _ := summary(t, world, tainted(world, "n1"))
		expect(t, got, tt.want)
	}
}
