package drain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestWithoutRules runs on Kubernetes 1.36 and older, which serve no DeviceTaintRules by
// default: the drain says so and evicts no pods until it is told to go on without.
func TestWithoutRules(t *testing.T) {
	s := newSite(t, "without", 2)
	s.publish(1, 2, 0)
	s.replicas("web", 2, "")
	name := s.drain("", s.all(0))
	if m := s.wait(name, "Blocked=True CannotCordon").Message; !strings.Contains(m, "not served") || !strings.Contains(m, "withoutCordon") {
		t.Errorf("message %q", m)
	}
	s.wait(name, "Cordoned=False CannotCordon")
	s.wait(name, "Draining=False CannotCordon")
	if n := once(t, s.name); n != 0 {
		t.Errorf("%d pods were evicted", n)
	}
	// So that the replacements have a place elsewhere only.
	s.publish(1, 3, 2)
	s.publish(0, 2, 0)
	s.change(name, func(d *v1alpha1.DeviceDrain) { d.Spec.WithoutCordon = true })
	s.wait(name, "Drained=True Drained")
	s.eventually("both run on the other node", func(context.Context) (bool, error) {
		nodes := s.on("web")
		return len(nodes) == 2 && nodes[0] == "node-1" && nodes[1] == "node-1", nil
	})
	if n := once(t, s.name); n != 2 {
		t.Errorf("%d pods were evicted", n)
	}
}
