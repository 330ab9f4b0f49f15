package drain_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const (
	drained  = 25 // of 50 nodes
	perDrain = 5
)

// TestLongDrain drains 1,000 devices of 25 nodes, or as many as DRAIN_PODS says, of 50 nodes
// there are, in five drains within one budget of a tenth of the pods, while the leader is
// killed, another one takes over, and the API server is restarted: no pod is lost, none
// goes twice, and the history of the pods never shows fewer ready than the budget wants.
func TestLongDrain(t *testing.T) {
	perNode := 1000 / drained
	if text := os.Getenv("DRAIN_PODS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < drained || n%drained > 0 {
			t.Fatalf("DRAIN_PODS is %q, want a multiple of %d", text, drained)
		}
		perNode = n / drained
	}
	all := perNode * drained
	spare := all / 10
	s := newSiteAlone(t, "long", 0)
	for node := range drained {
		s.publish(node, 2, perNode)
	}
	began := time.Now()
	s.replicas("web", int32(all), "")
	t.Logf("%d pods run after %s", all, time.Since(began).Round(time.Second))
	for node := range drained {
		s.publish(drained+node, 2, perNode)
	}
	s.budget("web", "web", int32(all-spare))
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
	some := func(n int) {
		t.Helper()
		s.eventually(fmt.Sprint(n, " are evicted"), func(ctx context.Context) (bool, error) {
			evicted := 0
			for _, name := range names {
				evicted += int(s.get(name, ctx).Status.Counts.Evicted)
			}
			return evicted > n, nil
		})
	}
	some(all / 5)
	do(s, leader.kill())
	killed := time.Now()
	s.leads(one)
	without := time.Since(killed).Round(time.Second)
	some(all / 2)
	do(s, cluster.RestartAPIServer(t.Context()))
	for _, name := range names {
		s.wait(name, "Drained=True Drained")
	}
	t.Logf("%d pods in %s, of which %s without a leader", all, time.Since(began).Round(time.Second), without)

	s.expectOnce(first.Items)
	s.expectCounts(names, perNode)
	if n := fewest(); n < all-spare {
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
	s.eventually("another replica leads", func(ctx context.Context) (bool, error) {
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

func (s site) expectCounts(names []string, perNode int) {
	s.Helper()
	var total v1alpha1.DrainCounts
	all := int32(perNode * drained)
	for _, name := range names {
		n := s.get(name, s.Context()).Status.Counts
		total.Evicted, total.Devices, total.Claims = total.Evicted+n.Evicted, total.Devices+n.Devices, total.Claims+n.Claims
		if n := len(s.cordon(s.Context(), name)); n != perDrain*perNode {
			s.Errorf("%d rules of %s, want %d", n, name, perDrain*perNode)
		}
	}
	if total != (v1alpha1.DrainCounts{Evicted: all, Devices: all}) {
		s.Errorf("counts %+v", total)
	}
}
