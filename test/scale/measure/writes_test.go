package measure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/scale"
)

const (
	// claimsPerRound, once for each round, are written in each turn, as fast as the API server
	// takes them and then at a steady rate of so many a second.
	claimsPerRound = 500
	steady         = 300
	// senders is how many writers there are: the API server keeps 25 connections to a webhook.
	senders = 16
	// publisher is the driver whose slices are published at once.
	publisher = "publish.example.com"
	// benchmark is the namespace of the claims that are written.
	benchmark = "benchmark"
)

func claim(prefix string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: scale.GPUDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}}}}
}

func toleration(i int) resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Key: fmt.Sprintf("example.com/fault-%d", i), Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

// measureGuard asks for a rule that evicts all pods, 50 times.
func measureGuard(t *testing.T, clients kubernetes.Interface, w scale.Cluster, s *step) {
	t.Helper()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "everything"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(scale.GPUDriver)},
		Taint:          resourceapi.DeviceTaint{Key: scale.GPUDriver + "/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	want := fmt.Sprintf("pods<=%d,", w.Claims())
	once := func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		_, err := clients.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		took := time.Since(begin)
		if err == nil || !strings.Contains(err.Error(), want) {
			return took, fmt.Errorf("want a refusal that says %q: %v", want, err)
		}
		return took, nil
	}
	eventually(t, "the guard knows all pods", func(ctx context.Context) error { _, err := once(ctx); return err })
	var took []time.Duration
	var tooLate float64
	for range 50 {
		one, err := once(t.Context())
		if err != nil && late(err.Error()) {
			tooLate, err = tooLate+1, nil
		}
		must(t, err)
		took = append(took, one)
	}
	slices.Sort(took)
	s.add("guard, a rule that hits all pods: checks that took too long", tooLate, "", "0")
	s.addGrowing("guard, a rule that hits all pods: p50", 1000*took[25].Seconds(), "ms", "")
	s.addGrowing("guard, a rule that hits all pods: p99", 1000*took[49].Seconds(), "ms", "< 1,000 ms")
}

// measureWrites writes claims, and then a slice for each node at once, with the webhook and
// without, by turns.
func measureWrites(t *testing.T, clients kubernetes.Interface, r *release, hook *process, w scale.Cluster, s *step) {
	t.Helper()
	_, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchmark}}, metav1.CreateOptions{})
	must(t, err)
	idle := admitAll(t, r)
	full, paced, slices := map[string]*turn{}, map[string]*turn{}, map[string]*turn{}
	ways := []string{ours, without, noop, noop, without, ours, ours, without, noop, noop, without, ours}
	if rounds() == 1 {
		ways = ways[:3]
	}
	// The first writes of so many clients take twice as long, because the API server has no
	// connections to them and has to grow.
	r.disconnect(t)
	publish(t, clients, w)
	for _, way := range ways {
		switch way {
		case ours:
			r.connect(t)
		case noop:
			r.disconnect(t)
			idle.connect(t)
		default:
			r.disconnect(t)
		}
		for _, all := range []map[string]*turn{full, paced, slices} {
			if all[way] == nil {
				all[way] = &turn{}
			}
		}
		full[way].add(writeClaims(t, clients, 0))
		hook.settle(t) // what the turn before deleted is not part of this one
		paced[way].add(writeClaims(t, clients, steady))
		hook.settle(t)
		slices[way].add(publish(t, clients, w))
	}
	r.connect(t)
	s.add("claims at 300/s, rate with and without", paced[ours].rate()/paced[without].rate(), "", "≥ 0.9")
	s.add("claims at 300/s: p99 without", paced[without].p99(), "ms", "")
	s.add("claims at 300/s: p99 with less p99 without", paced[ours].p99()-paced[without].p99(), "ms", "≤ 10 ms")
	s.add("claims at 300/s: the same of a webhook that admits all", paced[noop].p99()-paced[without].p99(), "ms", "")
	s.add("claims, as many as can be, without", full[without].rate(), "/s", "")
	s.add("claims, as many as can be, with the webhook", full[ours].rate(), "/s", "≥ 300/s")
	s.add("claims, as many as can be, with one that admits all", full[noop].rate(), "/s", "")
	s.add("claims, as many as can be: of one that admits all", full[ours].rate()/full[noop].rate(), "", "")
	s.addGrowing("a slice of each node at once, without", slices[without].wall.Seconds()/float64(len(ways)/3), "s", "")
	s.addGrowing("a slice of each node at once, with the webhook", slices[ours].wall.Seconds()/float64(len(ways)/3), "s", "")
	s.add("slices at once, wall with and without", slices[ours].wall.Seconds()/slices[without].wall.Seconds(), "", "≤ 1.3")
	s.add("slices at once, the same of a webhook that admits all", slices[noop].wall.Seconds()/slices[without].wall.Seconds(), "", "")
	s.add("claims, refused because the check took too long", float64(full[ours].failed+paced[ours].failed), "", "0")
	s.add("slices at once, refused", float64(slices[ours].failed), "", "0")
}

// The ways of writing: with our webhook, without one, and with one that admits everything and
// reads nothing, which costs what the calls of the API server cost.
const (
	ours    = "ours"
	without = "without"
	noop    = "noop"
)

// A turn is what was written with or without the webhook.
type turn struct {
	took   []time.Duration
	wall   time.Duration
	failed int64
	first  error
}

func (t *turn) add(other turn) {
	t.took, t.wall, t.failed = append(t.took, other.took...), t.wall+other.wall, t.failed+other.failed
	t.first = cmp.Or(t.first, other.first)
}

// rate is that of the writes.
func (t *turn) rate() float64 { return float64(len(t.took)) / t.wall.Seconds() }

// p99 is in milliseconds.
func (t *turn) p99() float64 {
	slices.Sort(t.took)
	return 1000 * t.took[len(t.took)*99/100].Seconds()
}

// writeClaims writes the claims of a turn, so many a second or, at 0, as many as can be.
func writeClaims(t *testing.T, clients kubernetes.Interface, perSecond int) turn {
	t.Helper()
	one := many(senders, rounds()*claimsPerRound, perSecond, func(ctx context.Context, _ int) error {
		_, err := clients.ResourceV1().ResourceClaims(benchmark).Create(ctx, claim("claim-"), metav1.CreateOptions{})
		return err
	})
	if one.failed > 0 {
		t.Logf("%d claims were refused, first: %v", one.failed, one.first)
	}
	if one.first != nil && !late(one.first.Error()) {
		t.Errorf("a claim was refused: %v", one.first)
	}
	must(t, clients.ResourceV1().ResourceClaims(benchmark).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	return one
}

// late reports whether a write was refused because the check took too long, which a loaded machine
// can cause.
func late(refusal string) bool { return strings.Contains(refusal, "too expensive to check") }

// publish creates the slices of a driver on each node, all at once.
func publish(t *testing.T, clients kubernetes.Interface, w scale.Cluster) turn {
	t.Helper()
	one := many(w.Nodes, w.Nodes, 0, func(ctx context.Context, i int) error {
		slice := w.GPUs(i)
		slice.Name, slice.Spec.Driver = scale.NodeName(i)+"-"+publisher, publisher
		_, err := clients.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		return err
	})
	if one.failed > 0 {
		t.Logf("%d slices were refused, first: %v", one.failed, one.first)
	}
	must(t, clients.ResourceV1().ResourceSlices().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + publisher}))
	return one
}

// many calls do for 0 to n-1 in goroutines, so many times a second if that is not 0. A call that
// is late counts from when it was due.
func many(goroutines, n, perSecond int, do func(context.Context, int) error) (all turn) {
	all.took = make([]time.Duration, n)
	var next, failed atomic.Int64
	var refused sync.Once
	var running sync.WaitGroup
	begin := time.Now()
	for range goroutines {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				at := time.Now()
				if perSecond > 0 {
					at = begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
					<-time.After(time.Until(at))
				}
				if err := do(context.Background(), i); err != nil {
					failed.Add(1)
					refused.Do(func() { all.first = err })
				}
				all.took[i] = time.Since(at)
			}
		})
	}
	running.Wait()
	all.wall, all.failed = time.Since(begin), failed.Load()
	return all
}
