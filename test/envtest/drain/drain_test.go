package drain_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestBudget: three replicas that want two to be ready leave the devices of a node, and
// the watch never shows fewer. kubectl wait is the whole integration. Another node's pod
// stays; deleting the drain lifts the cordon.
func TestBudget(t *testing.T) {
	s := newSite(t, "budget", 3)
	s.publish(1, 2, 0) // so that all start on node 0
	s.replicas("web", 3, "")
	s.publish(1, 3, 3)
	s.budget("web", "web", 2)
	fewest := s.watched("web")
	spec := s.all(0)
	spec.Paused = true // until it is known that the pods land: a drain can end before that
	name := s.drain("", spec)
	s.wait(name, "Cordoned=False WaitingForScheduler")
	s.wait(name, "PodsLand=True AllLand")
	_, err := drains.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"paused":false}}`), metav1.PatchOptions{})
	do(s, err)
	// The role of the chart lets the controller read the feature gates of the API server.
	if log, err := os.ReadFile(steward.log()); err != nil || !strings.Contains(string(log), `"the metrics of the API server"`) {
		t.Errorf("the log does not name the source of the feature gates: %v\n%s", err, log)
	}
	created := s.get(name, t.Context()).CreationTimestamp
	if out, err := cluster.Kubectl(t.Context(), "wait", "--for=condition=Drained", "--timeout=180s", "devicedrain/"+name).CombinedOutput(); err != nil {
		t.Fatalf("kubectl wait: %v\n%s", err, out)
	}
	d := s.get(name, t.Context())
	if cordoned := condition(d, v1alpha1.DrainCordoned); cordoned.LastTransitionTime.Sub(created.Time) < 10*time.Second {
		t.Errorf("Cordoned %s after the creation", cordoned.LastTransitionTime.Sub(created.Time))
	}
	for _, reason := range []string{"Cordoned", "Evicting", "Drained"} {
		s.event(metav1.NamespaceDefault, "DeviceDrain", name, reason)
	}
	for pod := range evicted(t, s.name) {
		s.logged(name, pod)
	}
	if n := fewest(); n < 2 {
		t.Errorf("only %d were ready at a time", n)
	}
	if n := once(t, s.name); n != 3 || d.Status.Counts.Evicted != 3 {
		t.Errorf("%d pods were evicted, %d are counted", n, d.Status.Counts.Evicted)
	}
	for _, node := range s.on("web") {
		if node == "node-0" {
			t.Error("a pod is on the drained node")
		}
	}
	if n := len(s.cordon(t.Context(), name)); n != 3 {
		t.Errorf("%d rules cordon 3 devices", n)
	}
	if err := drains.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) { return len(s.cordon(ctx, name)) == 0, nil })
}

// TestSharedClaim: three replicas share a named claim and want two to be ready. The
// replacement uses the claim again: the drain says by whom, waits, and is done when the
// owner has scaled down.
func TestSharedClaim(t *testing.T) {
	s := newSite(t, "shared", 1)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	claim.Spec = s.request()
	do(s, s.create(c.ResourceV1().ResourceClaims(s.name).Create(t.Context(), claim, metav1.CreateOptions{})))
	s.replicas("web", 3, "shared")
	s.budget("web", "web", 2)
	fewest := s.watched("web")
	spec := v1alpha1.DeviceDrainSpec{Selector: &v1alpha1.DrainSelector{Driver: &s.driver}, AtEnd: v1alpha1.EndUncordon}
	name := s.drain("", spec)
	if lands := s.wait(name, "PodsLand=False Stranded"); !strings.Contains(lands.Message, "3 pods do not land again: "+s.name+"/web-") {
		t.Errorf("message %q", lands.Message)
	}
	blocked := s.wait(name, "Blocked=True ClaimReused")
	if !strings.Contains(blocked.Message, "ReplicaSet/web") || !strings.Contains(blocked.Message, "shared/shared") {
		t.Errorf("message %q", blocked.Message)
	}
	if e := s.event(metav1.NamespaceDefault, "DeviceDrain", name, "ClaimReused"); e.Type != corev1.EventTypeWarning || !strings.Contains(e.Message, "ReplicaSet/web") {
		t.Errorf("event %s %q", e.Type, e.Message)
	}
	// On a slow machine the next try may have come before this is looked at.
	if n := once(t, s.name); n < 1 || n > 2 {
		t.Errorf("%d pods were evicted, want 1", n)
	}
	s.eventually("it is tried again", func(context.Context) (bool, error) { return len(evicted(t, s.name)) >= 2, nil })
	all := asked(t, s.name, "pods", "eviction")
	if pause := all[len(all)-1].StageTimestamp.Sub(all[0].StageTimestamp); pause < 19*time.Second {
		t.Errorf("tried again after %s", pause)
	}
	s.wait(name, "Blocked=True ClaimReused")
	if n := fewest(); n < 2 {
		t.Errorf("only %d were ready at a time", n)
	}
	if d := condition(s.get(name, t.Context()), v1alpha1.DrainDrained); d.Status != metav1.ConditionFalse {
		t.Errorf("drained: %+v", d)
	}
	s.scale("web", 0)
	s.wait(name, "Drained=True Drained")
	s.wait(name, "Cordoned=False Uncordoned")
}

// TestTwoBudgets: the Eviction API refuses a pod with two budgets; the drain says which,
// and goes on when one is gone.
func TestTwoBudgets(t *testing.T) {
	s := newSite(t, "budgets", 1)
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	s.publish(1, 3, 1)
	s.budget("one", "web", 0)
	s.budget("two", "web", 0)
	name := s.drain("", s.all(0))
	if m := s.wait(name, "Blocked=True MoreThanOneBudget").Message; !strings.Contains(m, "(one, two)") {
		t.Errorf("message %q", m)
	}
	s.wait(name, "Cordoned=True Cordoned")
	if err := c.PolicyV1().PodDisruptionBudgets(s.name).Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.wait(name, "Drained=True Drained")
	if n := once(t, s.name); n != 1 || len(asked(t, s.name, "pods", "eviction")) != 1 {
		t.Errorf("%d pods evicted in %d calls", n, len(asked(t, s.name, "pods", "eviction")))
	}
}

// TestTolerating: the replacement tolerates everything and gets the device again. It is
// left alone until the back-off is over.
func TestTolerating(t *testing.T) {
	s := newSite(t, "tolerating", 1)
	s.publish(1, 2, 0)
	template, err := c.ResourceV1().ResourceClaimTemplates(s.name).Get(t.Context(), "gpu", metav1.GetOptions{})
	do(s, err)
	template = &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: template.Name}}
	template.Spec.Spec = s.request(resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists})
	do(s, c.ResourceV1().ResourceClaimTemplates(s.name).Delete(t.Context(), "gpu", metav1.DeleteOptions{}))
	do(s, s.create(c.ResourceV1().ResourceClaimTemplates(s.name).Create(t.Context(), template, metav1.CreateOptions{})))
	s.replicas("monitor", 1, "")
	name := s.drain("", s.all(0))
	if m := s.wait(name, "Blocked=True Tolerated").Message; !strings.Contains(m, "ReplicaSet/monitor") {
		t.Errorf("message %q", m)
	}
	if n := once(t, s.name); n != 1 {
		t.Errorf("%d pods were evicted before", n)
	}
	s.eventually("it is tried again", func(context.Context) (bool, error) { return len(evicted(t, s.name)) == 2, nil })
	all := asked(t, s.name, "pods", "eviction")
	if pause := all[len(all)-1].StageTimestamp.Sub(all[0].StageTimestamp); pause < 19*time.Second {
		t.Errorf("tried again after %s", pause)
	}
	s.scale("monitor", 0)
	s.wait(name, "Drained=True Drained")
}

// TestOverlap: two drains of the same devices, a rule deleted by hand, the devices
// replaced meanwhile: each pod is evicted once, and both are done.
func TestOverlap(t *testing.T) {
	s := newSite(t, "overlap", 4)
	s.publish(1, 2, 0)
	s.replicas("web", 4, "")
	s.budget("web", "web", 3) // holds both drains after one pod until there are devices for its successor
	slow := s.all(0)
	slow.EvictionsPerMinute = new(int32(30))
	slow.AtEnd = v1alpha1.EndUncordon
	a, b := s.drain("-a", slow), s.drain("-b", slow)
	s.eventually("one is evicted", func(context.Context) (bool, error) { return len(evicted(t, s.name)) > 0, nil })
	var gone unstructured.Unstructured
	s.eventually("the first drain has a rule", func(ctx context.Context) (bool, error) {
		list, err := rules.List(ctx, metav1.ListOptions{LabelSelector: "dra-steward.io/drain=" + a})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		gone = list.Items[0]
		return true, nil
	})
	do(s, rules.Delete(t.Context(), gone.GetName(), metav1.DeleteOptions{}))
	s.publish(0, 4, 3)
	s.publish(0, 5, 4)
	s.eventually("the rule is there again", func(ctx context.Context) (bool, error) {
		again, err := rules.Get(ctx, gone.GetName(), metav1.GetOptions{})
		return err == nil && again.GetUID() != gone.GetUID(), nil
	})
	s.publish(1, 3, 4)
	s.wait(a, "Drained=True Drained")
	s.wait(b, "Drained=True Drained")
	if n := once(t, s.name); n != 4 {
		t.Errorf("%d pods were evicted, want 4", n)
	}
	total := s.get(a, t.Context()).Status.Counts.Evicted + s.get(b, t.Context()).Status.Counts.Evicted
	if total != 4 {
		t.Errorf("%d are counted: %+v and %+v", total, s.get(a, t.Context()).Status.Counts, s.get(b, t.Context()).Status.Counts)
	}
	s.eventually("both cordons are lifted", func(ctx context.Context) (bool, error) {
		list, err := rules.List(ctx, metav1.ListOptions{LabelSelector: "dra-steward.io/drain in (" + a + "," + b + ")"})
		return err == nil && len(list.Items) == 0, err
	})
}

// TestDeadline: a budget that never allows anything holds until the deadline, and what
// happens then is as the drain says.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for action, after := range map[v1alpha1.DeadlineAction]func(s site, name string){
		v1alpha1.DeadlineDelete: func(s site, name string) {
			s.wait(name, "Drained=True Drained")
			if n := s.get(name, s.Context()).Status.Counts; n.Deleted != 1 || n.Evicted != 0 {
				s.Errorf("counts %+v", n)
			}
		},
		v1alpha1.DeadlineKeep: func(s site, name string) {
			s.wait(name, "Draining=False DeadlineExceeded")
			do(s, c.PolicyV1().PodDisruptionBudgets(s.name).Delete(s.Context(), "web", metav1.DeleteOptions{}))
			s.wait(name, "Blocked=False NotBlocked") // and yet:
			s.untouched("web")
			s.wait(name, "Cordoned=True Cordoned")
			s.scale("web", 0)
			s.wait(name, "Drained=True Drained")
		},
		v1alpha1.DeadlineFail: func(s site, name string) {
			s.wait(name, "Failed=True DeadlineExceeded")
			s.event(metav1.NamespaceDefault, "DeviceDrain", name, "DeadlineExceeded")
			s.eventually("the cordon is lifted", func(ctx context.Context) (bool, error) { return len(s.cordon(ctx, name)) == 0, nil })
			s.untouched("web")
		},
	} {
		t.Run(string(action), func(t *testing.T) {
			s := newSite(t, "deadline-"+strings.ToLower(string(action)), 1)
			s.publish(1, 2, 0)
			s.replicas("web", 1, "")
			s.budget("web", "web", 1)
			spec := s.all(0)
			spec.AtEnd = v1alpha1.EndUncordon
			if action == v1alpha1.DeadlineKeep {
				spec.AtEnd = v1alpha1.EndHold
			}
			spec.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: 20 * time.Second}, Action: action}
			name := s.drain("", spec)
			if m := s.wait(name, "Blocked=True BudgetBlocked").Message; !strings.Contains(m, s.name+"/web") {
				t.Errorf("message %q", m)
			}
			after(s, name)
		})
	}
}

// TestExtendedResource: the claim of a pod on an extended resource, which the scheduler
// makes, holds a device as any other.
func TestExtendedResource(t *testing.T) {
	s := newSite(t, "extended", 1)
	s.publish(1, 2, 0)
	class, err := c.ResourceV1().DeviceClasses().Get(t.Context(), s.driver, metav1.GetOptions{})
	do(s, err)
	class.Spec.ExtendedResourceName = new(s.driver + "/gpu")
	do(s, s.create(c.ResourceV1().DeviceClasses().Update(t.Context(), class, metav1.UpdateOptions{})))
	s.replicasOf("web", 1, func(pod *corev1.PodSpec) {
		one := corev1.ResourceList{corev1.ResourceName(s.driver + "/gpu"): resource.MustParse("1")}
		pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	})
	s.publish(1, 3, 1)
	name := s.drain("", s.all(0))
	s.wait(name, "Drained=True Drained")
	if n := once(t, s.name); n != 1 {
		t.Errorf("%d pods were evicted, want 1", n)
	}
	s.eventually("it runs on the other node", func(context.Context) (bool, error) {
		nodes := s.on("web")
		return len(nodes) == 1 && nodes[0] == "node-1", nil
	})
}

// TestPodGroup: the pods of a gang share the claim of their PodGroup, which the scheduler
// reserves for the group. It is not free while the group is there, whatever becomes of
// the pods.
func TestPodGroup(t *testing.T) {
	s := newSite(t, "group", 1)
	s.publish(1, 2, 0)
	groups := c.SchedulingV1beta1().PodGroups(s.name)
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "training"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 2}
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	do(s, s.create(groups.Create(t.Context(), group, metav1.CreateOptions{})))
	s.replicasOf("worker", 2, func(pod *corev1.PodSpec) {
		pod.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	})
	claims, err := c.ResourceV1().ResourceClaims(s.name).List(t.Context(), metav1.ListOptions{})
	do(s, err)
	if len(claims.Items) != 1 || len(claims.Items[0].Status.ReservedFor) != 1 || claims.Items[0].Status.ReservedFor[0].Resource != "podgroups" {
		t.Fatalf("the claims are %+v", claims.Items)
	}
	name := s.drain("", s.all(0))
	s.eventually("a pod is evicted", func(context.Context) (bool, error) { return len(evicted(t, s.name)) > 0, nil })
	s.scale("worker", 0)
	if m := s.wait(name, "Blocked=True ClaimReserved").Message; !strings.Contains(m, "podgroups/training") || !strings.Contains(m, s.name+"/"+claims.Items[0].Name) {
		t.Errorf("message %q", m)
	}
	s.wait(name, "Cordoned=True Cordoned")
	s.wait(name, "Drained=False ClaimsRemain")
	do(s, groups.Delete(t.Context(), group.Name, metav1.DeleteOptions{}))
	s.wait(name, "Drained=True Drained")
	once(t, s.name)
}

// TestKilled: the controller is killed before the cordon, while it settles, between
// evictions, and at the end. Nothing is lost, nothing done twice, and the counts are
// right.
func TestKilled(t *testing.T) {
	s := newSiteAlone(t, "killed", 6) // the other tests share the process
	s.publish(1, 2, 0)
	s.replicas("web", 6, "")
	s.publish(1, 3, 6)
	s.budget("web", "web", 4)
	fewest := s.watched("web")
	again := func() {
		t.Helper()
		do(s, steward.kill())
		do(s, steward.start())
	}
	spec := s.all(0)
	spec.EvictionsPerMinute = new(int32(20))
	do(s, steward.kill())
	name := s.drain("", spec)
	do(s, steward.start())
	s.wait(name, "Cordoned=False WaitingForScheduler")
	again()
	for _, n := range []int{1, 3, 5} {
		s.eventually("some are evicted", func(context.Context) (bool, error) { return len(evicted(t, s.name)) >= n, nil })
		again()
	}
	s.wait(name, "Drained=True Drained")
	again()
	if n := once(t, s.name); n != 6 {
		t.Errorf("%d pods were evicted, want 6", n)
	}
	if n := s.get(name, t.Context()).Status.Counts.Evicted; n != 6 {
		t.Errorf("%d are counted", n)
	}
	if n := fewest(); n < 4 {
		t.Errorf("only %d were ready at a time", n)
	}
	list, err := rules.List(t.Context(), metav1.ListOptions{LabelSelector: "dra-steward.io/drain=" + name})
	do(s, err)
	if len(list.Items) != 6 {
		t.Errorf("%d rules, want 6", len(list.Items))
	}
}
