package evictor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// tripped is full with thresholds of ten pods and a share of devices that nothing exceeds.
func tripped() Options {
	return Options{Mode: ModeFull, Thresholds: &guard.Thresholds{Pods: 10, Namespaces: 5, Percent: 100}}
}

func manyOn(device string, n int) (objects []runtime.Object) {
	for i := range n {
		objects = append(objects, both(podOn("ns", fmt.Sprint("on-", device, "-", i), device))...)
	}
	return objects
}

// TestBreakerRule: a rule with too large an impact evicts no pods, and reports that and the
// acknowledgement that lets it continue; another rule is not affected; and it continues
// once acknowledged.
func TestBreakerRule(t *testing.T) {
	objects := append(manyOn("gpu-0", 30), manyOn("gpu-1", 3)...)
	inBubble(t, tripped(), append(objects, sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("large", "gpu-0", seconds(0)))
		b.createRule(ruleOn("small", "gpu-1", seconds(0)))
		b.pass(time.Hour)
		if len(b.deleted) != 3 {
			t.Errorf("%d deleted: %v", len(b.deleted), b.order)
		}
		b.expectCondition("large", "True PodsPendingEviction 1 30 pods need to be evicted in 1 namespace.")
		b.expectCondition("small", "False Completed 1 3 pods evicted.")
		c := b.condition("large", heldCondition)
		if c == nil || c.Reason != reasonTooLarge || !strings.HasSuffix(c.Message, `30 pods are more than the threshold of 10. To resume them, annotate the rule with dra-steward.io/acknowledged-impact: "pods<=30,namespaces<=1"`) {
			t.Fatalf("condition %+v", c)
		}
		writes := b.calls("patch", "devicetaintrules/status")
		b.acknowledge("large", "pods<=29")
		b.pass(time.Minute)
		if len(b.deleted) != 3 {
			t.Errorf("%d deleted above the ceiling", len(b.deleted))
		}
		b.acknowledge("large", "pods<=30,namespaces<=1")
		b.pass(time.Minute)
		if len(b.deleted) != 33 {
			t.Errorf("%d deleted below the ceiling", len(b.deleted))
		}
		b.expectCondition("large", "False Completed 1 30 pods evicted.")
		if more := b.calls("patch", "devicetaintrules/status") - writes; more > 8 {
			t.Errorf("%d writes of the status", more)
		}
	})
}

func (b *bubble) acknowledge(rule, ceiling string) {
	b.Helper()
	b.updateRule(rule, func(r *resourceapi.DeviceTaintRule) {
		r.Generation--
		r.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: ceiling}
	})
}

// TestBreakerGrows: the rule hits few when it is written, and more later.
func TestBreakerGrows(t *testing.T) {
	objects := append(manyOn("gpu-0", 8), sliceOf(1))
	inBubble(t, tripped(), objects, func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Second)
		if len(b.deleted) != 8 {
			t.Fatalf("%d deleted", len(b.deleted))
		}
		for i := range 50 { // one by one, so that never many are pending
			pod, claim := podOn("ns", fmt.Sprint("again-", i), "gpu-0")
			b.do(b.ResourceV1().ResourceClaims("ns").Create(b.Context(), claim, metav1.CreateOptions{}))
			b.do(b.CoreV1().Pods("ns").Create(b.Context(), pod, metav1.CreateOptions{}))
			b.pass(10 * time.Second)
		}
		if len(b.deleted) != 10 {
			t.Errorf("%d deleted", len(b.deleted))
		}
	})
}

// TestBreakerMends: what is paused goes on when it is no longer too large.
func TestBreakerMends(t *testing.T) {
	inBubble(t, tripped(), append(manyOn("gpu-0", 12), sliceOf(1, taint("broken", seconds(0)))), func(b *bubble) {
		b.pass(time.Minute)
		b.expect(nil)
		if got := b.values("dra_steward_evictor_paused_causes"); got[""] != 1 {
			t.Errorf("paused causes: %v, want 1", got)
		}
		b.gone("ns", "on-gpu-0-0")
		b.gone("ns", "on-gpu-0-1")
		b.pass(2 * time.Second)
		if len(b.deleted) != 10 {
			t.Errorf("%d deleted", len(b.deleted))
		}
		if got := b.values("dra_steward_evictor_paused_causes"); got[""] != 0 {
			t.Errorf("paused causes: %v, want none", got)
		}
	})
}

// TestBreakerDriver: a driver that taints all its devices is not followed, however few
// pods that hits, until an admin says so; the event names the driver and the key.
func TestBreakerDriver(t *testing.T) {
	all := sliceOf(1, taint("broken", seconds(0)))
	for i := range all.Spec.Devices {
		all.Spec.Devices[i].Taints = all.Spec.Devices[0].Taints
	}
	options := tripped()
	options.About = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "dra-steward", Name: "dra-steward-controller"}
	options.Thresholds = &guard.Thresholds{Pods: 10, Namespaces: 5, Percent: 25}
	inBubble(t, options, append(append(manyOn("gpu-0", 2), manyOn("gpu-1", 1)...), sliceOf(1)), func(b *bubble) {
		b.updateSlice(all)
		b.pass(time.Hour)
		b.expect(nil)
		want := `Warning EvictionPaused Paused the evictions for taints of driver gpu.example.com: 100 % of the devices of the drivers are more than the threshold of 25 %. To resume them, set acknowledged-impact.gpu.example.com: "pods<=3,namespaces<=1" in this object.`
		warning := "Warning DriverTaintsDevices Driver gpu.example.com has set NoExecute taints on 3 of its 3 devices, more than 25 %. If it taints all of them, their evictions are paused."
		if got := <-b.events.Events; got != warning {
			t.Errorf("event: %s\nwant:  %s", got, warning)
		}
		if got := <-b.events.Events; got != want {
			t.Errorf("event: %s\nwant:  %s", got, want)
		}
		b.controller.Confirm(Confirmation{Ceilings: map[string]guard.Ceiling{"gpu.example.com": {Pods: ptr.To(3)}}})
		b.pass(2 * time.Second)
		if len(b.deleted) != 3 {
			t.Errorf("%d deleted", len(b.deleted))
		}
	})
}

// TestBreakerOneOfMany: a driver that taints the devices of one node of many is followed.
func TestBreakerOneOfMany(t *testing.T) {
	objects := manyOn("gpu-0", 3)
	for i := range 4 {
		slice := sliceOf(1)
		slice.Name, slice.UID, slice.Spec.Pool.Name = fmt.Sprint("other-", i), types.UID(fmt.Sprint("other-", i)), fmt.Sprint("other-", i)
		objects = append(objects, slice)
	}
	options := tripped()
	options.Thresholds.Percent = 25
	inBubble(t, options, append(objects, sliceOf(1, taint("broken", seconds(0)))), func(b *bubble) {
		b.pass(time.Minute)
		if len(b.deleted) != 3 {
			t.Errorf("%d deleted", len(b.deleted))
		}
	})
}

// TestOlderRuleIsConfirmed: a rule from before the first start is reported, and acted on
// once its author acknowledges the impact; older taints of slices once an admin does.
func TestOlderRuleIsConfirmed(t *testing.T) {
	objects := append(manyOn("gpu-1", 2), manyOn("gpu-0", 2)...)
	options := tripped()
	options.ActSince = bubbleStart
	inBubble(t, options, append(objects, sliceOf(1, taint("broken", seconds(-100))), ruleOn("old", "gpu-1", seconds(-100))), func(b *bubble) {
		b.pass(time.Hour)
		b.expect(nil)
		c := b.condition("old", heldCondition)
		if c == nil || c.Reason != reasonOlder || !strings.Contains(c.Message, `2 pods are not evicted: the taint is older than the first start of dra-steward. To confirm it, annotate the rule with dra-steward.io/acknowledged-impact: "pods<=2"`) {
			t.Fatalf("condition %+v", c)
		}
		b.acknowledge("old", "pods<=2")
		b.pass(time.Minute)
		if len(b.deleted) != 2 {
			t.Errorf("%d deleted", len(b.deleted))
		}
		if b.condition("old", heldCondition) != nil {
			t.Error("it still says that it is held")
		}
		b.controller.Confirm(Confirmation{ActSince: bubbleStart.Add(-time.Hour)})
		b.pass(time.Minute)
		if len(b.deleted) != 4 {
			t.Errorf("%d deleted", len(b.deleted))
		}
	})
}

// holding gives a pod another claim.
func holding(pod *corev1.Pod, claim *resourceapi.ResourceClaim) *corev1.Pod {
	pod.Spec.ResourceClaims[0].ResourceClaimName = &claim.Name
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	return pod
}

// sick has so many devices with taints, and one without.
func sick(n int, taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
	slice := sliceOf(1)
	slice.Spec.Devices = []resourceapi.Device{{Name: "healthy"}}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i), Taints: taints})
	}
	return slice
}

// TestBreakerOfTenants: whatever one tenant does with its devices and claims, pods of other
// tenants are evicted. What exceeds a threshold by itself is paused.
func TestBreakerOfTenants(t *testing.T) {
	const many = 50
	broken := taint("broken", seconds(0))
	for name, test := range map[string]struct {
		objects func() []runtime.Object
		evicted int // of the tenant
	}{
		"a year": {func() (objects []runtime.Object) {
			for i := range many {
				objects = append(objects, both(podOn("mallory", fmt.Sprint(i), "gpu-0", tolerate(noExecute, ptr.To[int64](31536000))))...)
			}
			return objects
		}, 0},
		"one device": {func() (objects []runtime.Object) {
			for i := range many {
				objects = append(objects, both(podOn("mallory", fmt.Sprint(i), "gpu-0"))...)
			}
			return objects
		}, 0},
		"four tenants": {func() (objects []runtime.Object) {
			for i := range 4 * many {
				objects = append(objects, both(podOn(fmt.Sprint("mallory-", i%4), fmt.Sprint(i), fmt.Sprint("gpu-", i%4+5)))...)
			}
			return objects
		}, 0},
		"many devices": {func() (objects []runtime.Object) {
			for i := range 20 {
				objects = append(objects, both(podOn("mallory", fmt.Sprint(i), fmt.Sprint("gpu-", i+10)))...)
			}
			return objects
		}, 0},
		"one claim with many devices": {func() []runtime.Object {
			pod, claim := podOn("mallory", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](5)))
			for i := range 20 {
				result := claim.Status.Allocation.Devices.Results[0]
				result.Device = fmt.Sprint("gpu-", i+10)
				claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
			}
			objects := []runtime.Object{pod, claim}
			for i := range many {
				other, _ := podOn("mallory", fmt.Sprint(i), "gpu-0")
				objects = append(objects, holding(other, claim))
			}
			return objects
		}, 0},
		"few": {func() []runtime.Object { return both(podOn("mallory", "pod", "gpu-0")) }, 1},
	} {
		for source, taints := range map[string][]runtime.Object{"driver": {sick(30, broken)}, "rule": {sick(30), ruleOn("rule", "", seconds(0))}} {
			t.Run(name+" "+source, func(t *testing.T) {
				objects := append(append(test.objects(), both(podOn("alice", "pod", "gpu-1"))...), taints...)
				inBubble(t, tripped(), objects, func(b *bubble) {
					b.pass(time.Minute)
					if got := b.count("alice/"); got != 1 {
						t.Errorf("%d of the other tenant's pods evicted, want 1", got)
					}
					if got := b.count("mallory"); got != test.evicted {
						t.Errorf("%d of the tenant's pods evicted, want %d", got, test.evicted)
					}
				})
			})
		}
	}
}

// TestBreakerRestartingTenant: pods of a tenant that are created again and again are paused at
// the threshold, and remain so. Meanwhile counts of other tenants do not add up for ever.
func TestBreakerRestartingTenant(t *testing.T) {
	options := tripped()
	options.Journal = &book{}
	inBubble(t, options, []runtime.Object{sick(30, taint("broken", seconds(0)))}, func(b *bubble) {
		for i := range 30 {
			b.comesOn("mallory", fmt.Sprint(i), fmt.Sprint("gpu-", i))
			b.pass(time.Minute)
		}
		if got := b.count("mallory/"); got != 10 {
			t.Errorf("%d of the tenant's pods evicted, want 10", got)
		}
		for i := range 20 {
			b.comesOn(fmt.Sprint("tenant-", i), "pod", fmt.Sprint("gpu-", i))
			b.pass(20 * time.Minute)
			if i%5 == 0 {
				b.stop()
				b.start(options)
			}
		}
		if got := b.count("tenant-"); got != 20 {
			t.Errorf("%d of the other tenants' pods evicted, want 20", got)
		}
		b.pass(time.Hour)
		if got := b.count("mallory/"); got != 10 {
			t.Errorf("%d of the tenant's pods evicted at the end, want 10", got)
		}
	})
}

// TestBreakerOfMany: of a taint that affects many tenants, no more pods than the threshold are
// evicted: at once, if they become due over time, and one tenant after the other.
func TestBreakerOfMany(t *testing.T) {
	for name, test := range map[string]struct {
		apart time.Duration
		want  int
	}{"at once": {0, 0}, "within minutes": {30 * time.Second, 0}, "over hours": {3 * time.Minute, 7}} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{sick(40, taint("broken", seconds(0)))}
			for i := range 40 {
				toleration := tolerate(noExecute, ptr.To(int64(i)*int64(test.apart.Seconds())))
				objects = append(objects, both(podOn(fmt.Sprint("tenant-", i%4), fmt.Sprint(i), fmt.Sprint("gpu-", i), toleration))...)
			}
			inBubble(t, tripped(), objects, func(b *bubble) {
				b.pass(24 * time.Hour)
				if len(b.deleted) != test.want {
					t.Errorf("%d deleted, want %d: %v", len(b.deleted), test.want, b.order)
				}
			})
		})
	}
}

// TestBreakerAfterTolerations: the ten minutes begin with the last eviction, also if the pods
// tolerated the taint for longer.
func TestBreakerAfterTolerations(t *testing.T) {
	objects := []runtime.Object{sliceOf(1, taint("broken", seconds(0)))}
	for i := range 8 {
		objects = append(objects, both(podOn("ns", fmt.Sprint(i), "gpu-0", tolerate(noExecute, ptr.To[int64](3600))))...)
	}
	inBubble(t, tripped(), objects, func(b *bubble) {
		b.pass(time.Hour + time.Minute)
		for i := range 8 {
			b.comes("ns", fmt.Sprint("more-", i))
			b.pass(time.Second)
		}
		if len(b.deleted) != 10 {
			t.Errorf("%d deleted, the threshold is 10", len(b.deleted))
		}
	})
}

// TestBreakerSaysWhere: the condition of a rule, and the event for a driver, say that only a part
// is paused, and the acknowledgement that resumes it is enough.
func TestBreakerSaysWhere(t *testing.T) {
	objects := append(manyOn("gpu-0", 30), both(podOn("alice", "pod", "gpu-1"))...)
	inBubble(t, tripped(), append(objects, sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("rule", "", seconds(0)))
		b.pass(time.Minute)
		c := b.condition("rule", heldCondition)
		want := `Evictions are paused in 1 of 2 different namespaces: 31 pods are more than the threshold of 10. To resume them, annotate the rule with dra-steward.io/acknowledged-impact: "pods<=31,namespaces<=2"`
		if c == nil || c.Reason != reasonTooLarge || c.Message != want {
			t.Errorf("condition %+v", c)
		}
		b.acknowledge("rule", "pods<=31,namespaces<=2")
		b.pass(time.Minute)
		if len(b.deleted) != 31 {
			t.Errorf("%d deleted with the acknowledgement", len(b.deleted))
		}
		for i := range 50 { // more than is acknowledged
			b.comes("ns", fmt.Sprint("more-", i))
		}
		b.comesOn("alice", "more", "gpu-1")
		b.pass(time.Minute)
		if got := b.count("alice/"); got != 2 || len(b.deleted) != 32 {
			t.Errorf("%d pods of alice of %d evicted above the acknowledgement, want 2 of 32", got, len(b.deleted))
		}
	})
	options := tripped()
	options.About = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "dra-steward", Name: "dra-steward-controller"}
	inBubble(t, options, append(objects, sick(2, taint("broken", seconds(0)))), func(b *bubble) {
		b.pass(time.Minute)
		want := `Warning EvictionPaused Paused the evictions for taints of driver gpu.example.com in namespace ns: 31 pods are more than the threshold of 10. To resume them, set acknowledged-impact.gpu.example.com: "pods<=31,namespaces<=2" in this object.`
		for event := range b.events.Events {
			if strings.Contains(event, "EvictionPaused") {
				if event != want {
					t.Errorf("event: %s\nwant:  %s", event, want)
				}
				break
			}
		}
	})
}
