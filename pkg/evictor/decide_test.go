package evictor

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDecidePod(t *testing.T) {
	at := func(seconds int) *metav1.Time {
		return ptr.To(metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)))
	}
	podGroup := func(w world) {
		w.claims["ns/claim"].Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"}}
		w.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	}
	template := func(w world) {
		w.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("template")}}
	}
	for name, test := range map[string]struct {
		world    world
		change   func(world)
		settings Semantics
		want     int // seconds after start, -1 for no eviction
	}{
		"untolerated":           {world: one(at(3)), want: 3},
		"tolerated always":      {world: one(at(3), tolerate(noExecute, nil)), want: -1},
		"tolerated for a while": {world: one(at(3), tolerate(noExecute, ptr.To[int64](4))), want: 7},
		"the least of several": {
			world: one(at(0), tolerate(noExecute, ptr.To[int64](9)), tolerate(noExecute, ptr.To[int64](4)), tolerate(noExecute, ptr.To[int64](6))), want: 4},
		"always and for a while": {world: one(at(0), tolerate(noExecute, ptr.To[int64](9)), tolerate(noExecute, nil)), want: -1},
		"negative seconds":       {world: one(at(3), tolerate(noExecute, ptr.To[int64](-8))), want: 3},
		"tolerates NoSchedule":   {world: one(at(3), tolerate(resourceapi.DeviceTaintEffectNoSchedule, nil)), want: 3},
		"two taints, one tolerated": {
			world: one(at(3), resourceapi.DeviceToleration{Key: "example.com/broken", Operator: resourceapi.DeviceTolerationOpExists, Effect: noExecute}),
			change: func(w world) {
				w.taints[device(0)] = append(w.taints[device(0)], Taint{Index: 1, DeviceTaint: resourceapi.DeviceTaint{Key: "example.com/hot", Effect: noExecute, TimeAdded: at(8)}})
			}, want: 8},
		"effect None":            {world: one(at(3)), change: func(w world) { w.taints[device(0)][0].Effect = resourceapi.DeviceTaintEffectNone }, want: -1},
		"effect NoSchedule":      {world: one(at(3)), change: func(w world) { w.taints[device(0)][0].Effect = resourceapi.DeviceTaintEffectNoSchedule }, want: -1},
		"effect of the future":   {world: one(at(3)), change: func(w world) { w.taints[device(0)][0].Effect = "NoExecuteWithBudget" }, want: -1},
		"another device":         {world: one(at(3)), change: func(w world) { w.claims["ns/claim"].Status.Allocation.Devices.Results[0].Device = "gpu-7" }, want: -1},
		"not scheduled":          {world: one(at(3)), change: func(w world) { w.pod.Spec.NodeName = "" }, want: -1},
		"deallocated":            {world: one(at(3)), change: func(w world) { w.claims["ns/claim"].Status.Allocation = nil }, want: -1},
		"deleted claim":          {world: one(at(3)), change: func(w world) { delete(w.claims, "ns/claim") }, want: -1},
		"not reserved":           {world: one(at(3)), change: func(w world) { w.claims["ns/claim"].Status.ReservedFor = nil }, want: -1},
		"no claims":              {world: one(at(3)), change: func(w world) { w.pod.Spec.ResourceClaims = nil }, want: -1},
		"PodGroup":               {world: one(at(3)), change: podGroup, want: 3},
		"PodGroup, gate off":     {world: one(at(3)), change: podGroup, settings: Semantics{IgnorePodGroups: true}, want: -1},
		"PodGroup without claim": {world: one(at(3)), change: func(w world) { podGroup(w); w.pod.Spec.ResourceClaims = nil }, want: -1},
		"template, no status":    {world: one(at(3)), change: template, want: -1},
		"template, no claim": {world: one(at(3)), change: func(w world) {
			template(w)
			w.pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}}
		}, want: -1},
		"template": {world: one(at(3)), change: func(w world) {
			template(w)
			w.pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("claim")}}
			w.claims["ns/claim"].OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}}
		}, want: 3},
		"template, claim of another": {world: one(at(3)), change: func(w world) {
			template(w)
			w.pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("claim")}}
		}, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.world)
			}
			verdict := test.world.decide(test.settings, start)
			if test.want < 0 {
				expectNone(t, verdict)
			} else {
				expectAt(t, verdict, at(test.want).Time)
			}
		})
	}
}

func TestReasonsInOrder(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)))
	taint := w.taints[device(0)][0].DeviceTaint
	rule := func(name string) Taint {
		return Taint{DeviceTaint: taint, Rule: Rule{Name: name, UID: "1"}}
	}
	w.taints[device(1)] = []Taint{{DeviceTaint: taint, Index: 1}, {DeviceTaint: taint, Index: 0}, rule("b"), rule("a")}
	w.taints[device(0)] = []Taint{{DeviceTaint: taint}, rule("b")}
	results := &w.claims["ns/claim"].Status.Allocation.Devices.Results
	*results = append(*results, (*results)[0], (*results)[0])
	(*results)[0].Device = "gpu-1"
	verdict := w.decide(Semantics{}, start.Add(time.Minute))
	want := `evicted now, due since 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-1 has taint example.com/broken=xid-79:NoExecute of DeviceTaintRule a, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-0 has taint example.com/broken=xid-79:NoExecute of DeviceTaintRule b, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-1 has taint example.com/broken=xid-79:NoExecute of DeviceTaintRule b, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-0 has taint example.com/broken=xid-79:NoExecute of the driver, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-1 has taint example.com/broken=xid-79:NoExecute of the driver, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z
- device gpu.example.com/node/gpu-1 has taint example.com/broken=xid-79:NoExecute of the driver, and claim ns/claim does not tolerate it: due 2026-03-01T12:00:00Z`
	if got := verdict.Explain(start.Add(time.Minute)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if rules := verdict.rules(); len(rules) != 2 || rules[0].Name != "a" || rules[1].Name != "b" {
		t.Errorf("rules %v", rules)
	}
	if byDriver := verdict.Only(func(r Reason) bool { return !r.Taint.FromRule() }); len(byDriver.Reasons) != 3 {
		t.Errorf("reasons of the driver: %s", byDriver.Explain(start))
	}
}

func TestSettingsValidate(t *testing.T) {
	if err := (Semantics{}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (Semantics{EmptyEffect: "all"}).Validate(); err == nil || !strings.Contains(err.Error(), `must be "All" or "NoSchedule"`) {
		t.Error(err)
	}
	if err := (Semantics{TolerationStart: "now"}).Validate(); err == nil || !strings.Contains(err.Error(), `must be "TaintAdded" or`) {
		t.Error(err)
	}
}
