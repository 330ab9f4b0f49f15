package devicedrain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
)

// slowClient does not answer evictions of the pods in plane.hang, like an API server whose
// admission webhook hangs. Reactors of a fake cannot: it holds a lock while it calls them.
type slowClient struct {
	kubernetes.Interface
	plane *plane
}

func (c slowClient) PolicyV1() policyclient.PolicyV1Interface {
	return slowPolicy{c.Interface.PolicyV1(), c.plane}
}

type slowPolicy struct {
	policyclient.PolicyV1Interface
	plane *plane
}

func (c slowPolicy) Evictions(namespace string) policyclient.EvictionInterface {
	return slowEvictions{c.PolicyV1Interface.Evictions(namespace), c.plane}
}

type slowEvictions struct {
	policyclient.EvictionInterface
	plane *plane
}

func (c slowEvictions) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	c.plane.mutex.Lock()
	hangs := c.plane.hang[eviction.Name]
	c.plane.mutex.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.EvictionInterface.Evict(ctx, eviction)
}

// TestSlowEvictions: while evictions of twelve drains get no answer, another drain, of
// another namespace, ends as soon as alone.
func TestSlowEvictions(t *testing.T) {
	inPlane(t, func(p *plane) {
		of := func(i int) func(*v1alpha1.DeviceDrainSpec) {
			return func(s *v1alpha1.DeviceDrainSpec) {
				s.Devices = []v1alpha1.DeviceName{{Driver: gpuDriver, Pool: "node", Device: fmt.Sprint("gpu-", i)}}
			}
		}
		for i := range 12 {
			p.do(func() { p.hang[p.pod("stuck", i, "").Name] = true })
			p.drain(fmt.Sprint("stuck-", i), 0, of(i))
		}
		p.pass(15 * time.Second)
		p.do(func() {
			p.namespaceOf = map[string]string{"web": "web"}
			p.pod("web", 12, "")
		})
		p.drain("web", 0, of(12))
		p.pass(20 * time.Second)
		p.expect("web", "Drained=True Drained")
		p.do(func() { clear(p.hang) })
		p.pass(2 * time.Minute)
		for i := range 12 {
			p.expect(fmt.Sprint("stuck-", i), "Drained=True Drained")
		}
	})
}

// TestSlowEvictionOfSharedPod: a pod of two drains whose eviction hangs is asked for by one
// of them at a time.
func TestSlowEvictionOfSharedPod(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() { p.hang[p.pod("web", 0, "").Name] = true })
		p.drain("a", 1, nil)
		p.drain("b", 1, nil)
		p.pass(40 * time.Second)
		evicting := len(p.get("a").Status.Evicting) + len(p.get("b").Status.Evicting)
		if evicting != 1 {
			t.Errorf("%d drains evict the pod, want 1", evicting)
		}
		p.do(func() { clear(p.hang) })
		p.pass(2 * time.Minute)
		order, _ := p.went()
		if n := p.get("a").Status.Counts.Evicted + p.get("b").Status.Counts.Evicted; n != 1 || len(order) != 1 {
			t.Errorf("%d counted, %v evicted", n, order)
		}
	})
}

// TestKilledWithTwoDrains kills the controller before and after each of its calls while two
// drains share their devices: each pod goes once and is counted once.
func TestKilledWithTwoDrains(t *testing.T) {
	killedInEveryCall(t, func(p *plane) {
		p.do(func() {
			for i := range 4 {
				p.pod("web", i%2, "")
			}
		})
		for _, name := range []string{"a", "b"} {
			p.drain(name, 2, func(s *v1alpha1.DeviceDrainSpec) {
				s.EvictionsPerMinute, s.AtEnd = new(int32(60)), v1alpha1.EndUncordon
			})
		}
	})
}

// TestSlowStatus: two writes of a status arrive at least a second apart, whatever the first one takes.
func TestSlowStatus(t *testing.T) {
	inPlane(t, func(p *plane) {
		for i := range 4 {
			p.do(func() { p.pod("web", i, "") })
		}
		p.do(func() {
			p.latencies = []time.Duration{700 * time.Millisecond, 0, 700 * time.Millisecond, 0, 700 * time.Millisecond, 0}
		})
		p.drain("web", 4, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(v1alpha1.DrainRateMax)) })
		p.pass(time.Minute)
		p.expect("web", "Drained=True Drained")
		for i, at := range p.writes[1:] {
			if pause := at - p.writes[i]; pause < time.Second {
				t.Errorf("write %d arrived %v after the one before", i+2, pause)
			}
		}
	})
}

// TestCostlySelectors holds that a drain whose selector costs too much is blocked by itself,
// whether it is tried out, paused or carried out, and that others go on.
func TestCostlySelectors(t *testing.T) {
	ten := "[1,2,3,4,5,6,7,8,9,10]"
	costly := fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a + b + c + d > 0))))", ten)
	inPlane(t, func(p *plane) {
		p.do(func() { p.pod("web", 0, "") })
		for name, change := range map[string]func(*v1alpha1.DeviceDrainSpec){
			"dry-run": func(s *v1alpha1.DeviceDrainSpec) { s.DryRun = true },
			"paused":  func(s *v1alpha1.DeviceDrainSpec) { s.Paused = true },
			"costly":  func(*v1alpha1.DeviceDrainSpec) {},
		} {
			p.drain(name, 0, func(s *v1alpha1.DeviceDrainSpec) {
				s.Selector = &v1alpha1.DrainSelector{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: costly}}}}
				change(s)
			})
		}
		p.drain("web", 1, nil)
		p.pass(time.Minute)
		p.expect("web", "Drained=True Drained")
		for _, name := range []string{"dry-run", "paused", "costly"} {
			blocked := condition.Find(p.get(name).Status.Conditions, v1alpha1.DrainBlocked)
			if blocked.Reason != v1alpha1.BlockedSelector || !strings.Contains(blocked.Message, "too expensive") {
				t.Errorf("%s: %+v", name, blocked)
			}
		}
	})
}
