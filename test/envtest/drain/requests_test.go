package drain_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecycleapi "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestEvictionRequestsWithoutController is Kubernetes 1.37: it stores EvictionRequests, and
// nothing processes them. After a minute the drain evicts the pods itself, says so, and
// withdraws the requests.
func TestEvictionRequestsWithoutController(t *testing.T) {
	takesMinutes(t)
	s := newSite(t, "requests", 2)
	s.publish(1, 2, 0)
	s.replicas("web", 2, "")
	s.publish(1, 3, 2)
	spec := s.all(0)
	spec.Via = v1alpha1.ViaEvictionRequest
	name := s.drain("", spec)
	s.wait(name, "ViaEvictionRequest=True Requesting")
	s.eventually("both are requested", func(ctx context.Context) (bool, error) { return len(s.requests(ctx)) == 2, nil })
	if n := once(t, s.name); n != 0 {
		t.Errorf("%d pods were evicted at once", n)
	}
	s.wait(name, "ViaEvictionRequest=False NotAnswered")
	if e := s.event(metav1.NamespaceDefault, "DeviceDrain", name, "NotAnswered"); e.Type != corev1.EventTypeWarning {
		t.Errorf("event %s %q", e.Type, e.Message)
	}
	s.wait(name, "Drained=True Drained")
	s.eventually("the requests are withdrawn", func(ctx context.Context) (bool, error) { return len(s.requests(ctx)) == 0, nil })
	created, evictions := asked(t, s.name, "evictionrequests", ""), asked(t, s.name, "pods", "eviction")
	if n := once(t, s.name); n != 2 || s.get(name, t.Context()).Status.Counts.Evicted != 2 {
		t.Errorf("%d pods were evicted, %+v are counted", n, s.get(name, t.Context()).Status.Counts)
	}
	if len(created) == 0 || len(evictions) == 0 {
		t.Fatalf("%d calls for requests, %d evictions", len(created), len(evictions))
	}
	if waited := evictions[0].StageTimestamp.Sub(created[0].StageTimestamp); waited < 55*time.Second || waited > 90*time.Second {
		t.Errorf("fell back after %s", waited)
	}
}

// TestEvictionRequestsWithController: the test processes the requests as a controller does,
// also for a pod whose budget allows no eviction. The drain evicts none itself.
func TestEvictionRequestsWithController(t *testing.T) {
	s := newSite(t, "responder", 1)
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	s.budget("web", "web", 1)
	s.publish(1, 3, 1)
	spec := s.all(0)
	spec.Via = v1alpha1.ViaEvictionRequest
	name := s.drain("", spec)
	var request lifecycleapi.EvictionRequest
	s.eventually("the eviction is requested", func(ctx context.Context) (bool, error) {
		all := s.requests(ctx)
		if len(all) == 1 {
			request = all[0]
		}
		return len(all) == 1, nil
	})
	request.Status.ObservedGeneration = &request.Generation
	request.Status.Conditions = []metav1.Condition{{Type: string(lifecycleapi.EvictionConditionTargetEvicted), Status: metav1.ConditionFalse,
		Reason: string(lifecycleapi.EvictionConditionReasonAwaitingEviction), LastTransitionTime: metav1.Now()}}
	do(s, s.create(c.LifecycleV1alpha1().EvictionRequests(s.name).UpdateStatus(t.Context(), &request, metav1.UpdateOptions{})))
	<-time.After(75 * time.Second) // longer than a request without a status may take
	if open := s.requests(t.Context()); len(open) != 1 || condition(s.get(name, t.Context()), v1alpha1.DrainViaEvictionRequest).Status != metav1.ConditionTrue {
		t.Errorf("requests %v, conditions %+v", open, s.get(name, t.Context()).Status.Conditions)
	}
	target := request.Spec.Target.Pod
	if request.Spec.Requester != "dra-steward.io/drain" || request.Spec.Intent != lifecycleapi.EvictionRequestIntentEviction || target == nil {
		t.Fatalf("request %+v", request.Spec)
	}
	do(s, c.CoreV1().Pods(s.name).Delete(t.Context(), target.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(target.UID))}))
	s.wait(name, "Drained=True Drained")
	s.wait(name, "ViaEvictionRequest=True Requesting")
	if n := once(t, s.name); n != 0 || s.get(name, t.Context()).Status.Counts.Evicted != 1 {
		t.Errorf("%d pods were evicted, %+v are counted", n, s.get(name, t.Context()).Status.Counts)
	}
	s.eventually("the request is withdrawn", func(ctx context.Context) (bool, error) { return len(s.requests(ctx)) == 0, nil })
}

// TestEvictionRequestsEndWithTheDrain: deleting a drain withdraws its requests.
func TestEvictionRequestsEndWithTheDrain(t *testing.T) {
	s := newSite(t, "withdrawn", 1)
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	spec := s.all(0)
	spec.Via = v1alpha1.ViaEvictionRequest
	name := s.drain("", spec)
	s.eventually("the eviction is requested", func(ctx context.Context) (bool, error) { return len(s.requests(ctx)) == 1, nil })
	do(s, drains.Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.eventually("the request is withdrawn", func(ctx context.Context) (bool, error) { return len(s.requests(ctx)) == 0, nil })
	s.untouched("web")
}

// requests are the EvictionRequests of the test's namespace.
func (s site) requests(ctx context.Context) []lifecycleapi.EvictionRequest {
	list, err := c.LifecycleV1alpha1().EvictionRequests(s.name).List(ctx, metav1.ListOptions{})
	do(s, err)
	return list.Items
}
