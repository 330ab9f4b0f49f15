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
