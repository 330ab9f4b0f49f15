package drain_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const (
	thousand = 1000
	drained  = 25 // of 50 nodes
	perNode  = thousand / drained
	spare    = 100
	// A drain has at most 256 devices.
	perDrain = 5
)

// TestLongDrain drains 1,000 devices of 25 nodes, of 50 there are, in five drains within
// one budget of 100 pods, while the leader is killed, another one takes over, and the API
// server is restarted: nobody is lost, nobody goes twice, and the history of the pods never
// shows fewer ready than the budget wants.
func TestLongDrain(t *testing.T) {
	s := newSiteAlone(t, "long", 0)
	for node := range drained {
		s.publish(node, 2, perNode)
	}
	began := time.Now()
	s.replicas("web", thousand, "")
	t.Logf("%d pods run after %s", thousand, time.Since(began).Round(time.Second))
	for node := range drained {
		s.publish(drained+node, 2, perNode)
	}
	s.budget("web", "web", thousand-spare)
	first, err := c.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{})
	do(s, err)
	fewest := s.watched("web")

	do(s, steward.kill())
	leader := &program{name: "leader", args: standby.args, again: true}
	standby.again = true
	do(s, leader.start())
	one := s.leads("")
	do(s, standby.start())
	defer func() { _ = standby.kill() }()

	began = time.Now()
	var names []string
	for from := 0; from < drained; from += perDrain {
		spec := s.all(0)
		spec.Selector.Selectors[0].CEL.Expression = fmt.Sprintf(`device.attributes[%[1]q].node >= %[2]d && device.attributes[%[1]q].node < %[3]d`, s.driver, from, from+perDrain)
		spec.EvictionsPerMinute = new(int32(600))
		names = append(names, s.drainOf(fmt.Sprint("-", from), spec, fmt.Sprintf("pods<=%d", perDrain*perNode)))
	}
	some := func(n int32) {
		t.Helper()
		s.eventually(fmt.Sprint(n, " are evicted"), func(ctx context.Context) (bool, error) {
			var evicted int32
			for _, name := range names {
				evicted += s.get(name, ctx).Status.Counts.Evicted
			}
			return evicted > n, nil
		})
	}
	some(thousand / 5)
	do(s, leader.kill())
	killed := time.Now()
	s.leads(one)
	without := time.Since(killed).Round(time.Second)
	some(thousand / 2)
	do(s, cluster.RestartAPIServer(t.Context()))
	for _, name := range names {
		s.wait(name, "Drained=True Drained")
	}
	t.Logf("%d pods in %s, of which %s without a leader", thousand, time.Since(began).Round(time.Second), without)

	s.expectOnce(first.Items)
	s.expectCounts(names)
	if n := fewest(); n < thousand-spare {
		t.Errorf("only %d were ready at a time", n)
	}
	for _, node := range s.on("web") {
		var i int
		if _, err := fmt.Sscanf(node, "node-%d", &i); err != nil || i < drained {
			t.Errorf("a pod is on the drained node %s", node)
		}
	}
}

// leads waits until another one than before leads, and returns it.
func (s site) leads(before string) (now string) {
	s.Helper()
	s.eventually("somebody else leads", func(ctx context.Context) (bool, error) {
		lease, err := c.CoordinationV1().Leases("dra-steward").Get(ctx, "dra-steward-controller", metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil {
			now = *lease.Spec.HolderIdentity
		}
		return now != "" && now != before, nil
	})
	return now
}

// expectOnce fails unless one eviction of each pod was carried out, and none of another
// pod was asked for. One that the API server was asked for while it was stopped may be
// answered with an error and be carried out.
func (s site) expectOnce(pods []corev1.Pod) {
	s.Helper()
	accepted, unanswered, refused := map[string]int{}, map[string]int{}, 0
	for _, e := range asked(s.T, s.name, "pods", "eviction") {
		switch code := e.ResponseStatus.Code; {
		case code < 300:
			accepted[e.ObjectRef.Name]++
		case code >= http.StatusInternalServerError:
			unanswered[e.ObjectRef.Name]++
		default:
			refused++
		}
	}
	once := 0
	for i := range pods {
		name := pods[i].Name
		if accepted[name] == 1 || accepted[name] == 0 && unanswered[name] > 0 {
			once++
		} else {
			s.Errorf("%s: %d evictions were accepted, %d had no answer", name, accepted[name], unanswered[name])
		}
		delete(accepted, name)
		delete(unanswered, name)
	}
	if len(accepted)+len(unanswered) > 0 {
		s.Errorf("replacements were evicted: %v %v", accepted, unanswered)
	}
	if n := len(asked(s.T, s.name, "pods", "")); n > 0 {
		s.Errorf("%d pods were written or deleted", n)
	}
	s.Logf("%d of %d pods evicted once; %d evictions refused", once, len(pods), refused)
	if refused > len(pods)/10 {
		s.Errorf("%d evictions were refused: they were asked for although the budget was known to allow none", refused)
	}
}

func (s site) expectCounts(names []string) {
	s.Helper()
	var total v1alpha1.DrainCounts
	for _, name := range names {
		n := s.get(name, s.Context()).Status.Counts
		total.Evicted, total.Devices, total.Claims = total.Evicted+n.Evicted, total.Devices+n.Devices, total.Claims+n.Claims
		if n := len(s.cordon(s.Context(), name)); n != perDrain*perNode {
			s.Errorf("%d rules of %s, want %d", n, name, perDrain*perNode)
		}
	}
	if total != (v1alpha1.DrainCounts{Evicted: thousand, Devices: thousand}) {
		s.Errorf("counts %+v", total)
	}
}
