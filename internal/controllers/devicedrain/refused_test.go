package devicedrain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// asked counts the calls that begin so.
func (p *plane) asked(what string) (n int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, call := range p.calls {
		if strings.HasPrefix(call, what) {
			n++
		}
	}
	return n
}

// TestRefusedUncordon: a cordon that cannot be deleted is tried again every ten seconds, and no other drain waits
// for it.
func TestRefusedUncordon(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			p.refuse["rules"] = apierrors.NewForbidden(schema.GroupResource{Resource: "devicetaintrules"}, "x", errors.New("a policy protects it"))
			p.pod("web", 0, "")
			p.pod("web", 5, "")
		})
		p.drain("d", 1, func(s *v1alpha1.DeviceDrainSpec) { s.AtEnd = v1alpha1.EndUncordon })
		p.pass(time.Minute)
		p.expect("d", "Drained=True Drained")
		before := p.asked("delete rule")
		p.pass(time.Minute)
		if n := p.asked("delete rule") - before; n < 5 || n > 7 {
			t.Errorf("the rule was deleted %d times in a minute, want 6", n)
		}
		p.drain("other", 1, func(s *v1alpha1.DeviceDrainSpec) {
			s.Devices = []v1alpha1.DeviceName{{Driver: gpuDriver, Pool: "node", Device: "gpu-5"}}
		})
		p.pass(time.Minute)
		p.expect("other", "Cordoned=True Cordoned", "Drained=True Drained")
	})
}

// TestConflictOfWebhook: a webhook can answer an eviction with 409, like an API server that has another pod of the name.
// The other pods are evicted meanwhile, and the drain says why this one is not.
func TestConflictOfWebhook(t *testing.T) {
	inPlane(t, func(p *plane) {
		var name string
		p.do(func() {
			name = p.pod("web", 0, "").Name
			p.pod("web", 1, "")
			p.pod("web", 2, "")
			p.refuse[name] = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New(`admission webhook "x" denied the request: not now`))
		})
		p.drain("d", 3, nil)
		p.pass(2 * time.Minute)
		if order, _ := p.went(); len(order) != 2 {
			t.Errorf("%d pods were evicted, want 2", len(order))
		}
		if n := p.asked("evict " + name); n > 25 {
			t.Errorf("the pod was evicted %d times in two minutes, want one every five seconds", n)
		}
		p.expect("d", "Blocked=True EvictionRefused")
		p.do(func() { delete(p.refuse, name) })
		p.pass(time.Minute)
		p.expect("d", "Drained=True Drained")
	})
}
