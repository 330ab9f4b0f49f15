package devicedrain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	lifecycleapi "k8s.io/api/lifecycle/v1alpha1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestRequestedIsNotEvicted: while a drain writes that it asks a pod by an EvictionRequest, no other drain evicts the pod.
func TestRequestedIsNotEvicted(t *testing.T) {
	for half := range 16 {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			inPlane(t, func(p *plane) {
				var asked []string
				ends := p.endsAfter(10 * time.Minute)
				p.requests.answer = func(r *lifecycleapi.EvictionRequest) {
					asked = append(asked, r.Spec.Target.Pod.Name)
					ends(r)
				}
				p.do(func() { p.pod("web", 0, ""); p.pod("web", 1, "") })
				p.slowStatus = "asks"
				p.drain("asks", 2, viaRequests)
				p.pass(time.Duration(half) * time.Second / 2)
				p.drain("evicts", 2, func(s *v1alpha1.DeviceDrainSpec) { s.AtEnd = v1alpha1.EndUncordon })
				p.pass(time.Minute)
				went, _ := p.went()
				for _, pod := range asked {
					if slices.Contains(went, pod) {
						t.Errorf("%s was asked by an EvictionRequest, and evicted", pod)
					}
				}
				if len(asked)+len(went) != 2 {
					t.Errorf("%q were asked, %q evicted", asked, went)
				}
			})
		})
	}
}
