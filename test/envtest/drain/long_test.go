package drain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLongDrain drains 200 devices of 25 nodes, of 50 there are, within a budget of 10
// pods, while the leader is killed and another one takes over: nobody is lost, nobody
// goes twice, and the watch never shows fewer ready than the budget wants.
func TestLongDrain(t *testing.T) {
	const pods, perNode, spare = 200, 8, 10
	s := newSiteAlone(t, "long", 0)
	for node := range pods / perNode {
		s.publish(node, 2, perNode)
	}
	s.replicas("web", pods, "")
	for node := range pods / perNode {
		s.publish(pods/perNode+node, 2, perNode)
	}
	s.budget("web", "web", pods-spare)
	fewest := s.watched("web")

	do(s, steward.kill())
	leader := &program{name: "leader", args: standby.args}
	do(s, leader.start())
	holder := func(ctx context.Context) string {
		lease, err := c.CoordinationV1().Leases("dra-steward").Get(ctx, "dra-steward-controller", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	first := ""
	s.eventually("the first leads", func(ctx context.Context) (bool, error) { first = holder(ctx); return first != "", nil })
	do(s, standby.start())
	defer func() { _ = standby.kill() }()

	spec := s.all(0)
	spec.Selector.Selectors[0].CEL.Expression = fmt.Sprintf(`device.attributes[%q].node < %d`, s.driver, pods/perNode)
	spec.EvictionsPerMinute = new(int32(1200))
	begin := time.Now()
	name := s.drainOf("", spec, fmt.Sprintf("pods<=%d", pods))
	s.eventually("a third is evicted", func(context.Context) (bool, error) { return len(evicted(t, s.name)) > pods/3, nil })
	do(s, leader.kill())
	killed := time.Now()
	s.eventually("another one leads", func(ctx context.Context) (bool, error) { is := holder(ctx); return is != "" && is != first, nil })
	took := time.Since(killed)
	s.wait(name, "Drained=True Drained")
	t.Logf("%d pods in %s, of which %s without a leader", pods, time.Since(begin).Round(time.Second), took.Round(time.Second))

	if n := once(t, s.name); n != pods {
		t.Errorf("%d pods were evicted, want %d", n, pods)
	}
	if n := s.get(name, t.Context()).Status.Counts; n.Evicted != pods || n.Devices != pods || n.Claims != 0 {
		t.Errorf("counts %+v", n)
	}
	if n := fewest(); n < pods-spare {
		t.Errorf("only %d were ready at a time", n)
	}
	if n := len(s.cordon(t.Context(), name)); n != pods {
		t.Errorf("%d rules, want %d", n, pods)
	}
	for _, node := range s.on("web") {
		var i int
		if _, err := fmt.Sscanf(node, "node-%d", &i); err != nil || i < pods/perNode {
			t.Errorf("a pod is on the drained node %s", node)
		}
	}
	if refused := len(asked(t, s.name, "pods", "eviction")) - pods; refused > pods/10 {
		t.Errorf("%d evictions were refused: they were asked for although the budget was known to allow none", refused)
	}
}
