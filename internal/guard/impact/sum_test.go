package impact

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/serving/caller"
)

// oneDevice is a rule on one device of a crowd.
func oneDevice(n int, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule-%02d", n), Generation: 1, CreationTimestamp: metav1.Now()}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new(fmt.Sprintf("node-%05d", n/8)), Device: new(fmt.Sprint("gpu-", n%8))}
	return rule
}

// updates is the request to change a stored rule to NoExecute.
func updates(t testing.TB, old *resourceapi.DeviceTaintRule) admission.Request {
	t.Helper()
	rule := old.DeepCopy()
	rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	request := evicting(nil, nil)
	request.Name = rule.Name
	for data, object := range map[*[]byte]*resourceapi.DeviceTaintRule{&request.Object.Raw: rule, &request.OldObject.Raw: old} {
		var err error
		if *data, err = json.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	return request
}

// TestOneDeviceEach is an attack: 32 rules with one device each, the effect None first and
// then NoExecute. Each by itself is within the thresholds.
func TestOneDeviceEach(t *testing.T) {
	for name, tt := range map[string]struct {
		window *metav1.Duration
		want   int
	}{
		"by default":       {nil, 16}, // 25 % of 64
		"without a window": {&metav1.Duration{}, 32},
	} {
		h := guardOf(t, crowd(t, 64), v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Window: tt.window}})
		admitted, said := 0, ""
		for n := range 32 {
			if got := h.Handle(t.Context(), updates(t, oneDevice(n, resourceapi.DeviceTaintEffectNone))); got.Allowed {
				admitted++
			} else {
				said = got.Result.Message
			}
		}
		if admitted != tt.want {
			t.Errorf("%s: %d of 32 rules were admitted, want %d", name, admitted, tt.want)
		}
		if tt.want < 32 && !strings.Contains(said, "together with the 16 evictions that began within the last 10m, 27 % of the devices of the drivers are more than the threshold of 25 %: DeviceTaintRule rule-00 (1 pod)") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestParallelRules: two replicas that do not see each other's writes yet admit at most the
// threshold each.
func TestParallelRules(t *testing.T) {
	const threshold = 20
	replicas := []admission.Handler{guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{}), guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{})}
	var admitted [2]atomic.Int32
	var writers sync.WaitGroup
	for n := range 64 {
		request := updates(t, oneDevice(n, resourceapi.DeviceTaintEffectNone))
		writers.Go(func() {
			if replicas[n%2].Handle(t.Context(), request).Allowed {
				admitted[n%2].Add(1)
			}
		})
	}
	writers.Wait()
	if a, b := admitted[0].Load(), admitted[1].Load(); a != threshold || b != threshold {
		t.Errorf("admitted %d and %d, want %d each", a, b, threshold)
	}
}

// TestSumsOfStoredRules: a replica counts what others admitted once it sees that stored, also
// after the pods are gone; and no longer what was taken back before they were.
func TestSumsOfStoredRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		next := 100
		admits := func() bool {
			next++
			request := updates(t, oneDevice(next, resourceapi.DeviceTaintEffectNone))
			request.DryRun = new(true)
			return h.Handle(t.Context(), request).Allowed
		}
		for n := range 20 {
			none := oneDevice(n, resourceapi.DeviceTaintEffectNone)
			execute := none.DeepCopy()
			execute.Spec.Taint.Effect, execute.Generation = resourceapi.DeviceTaintEffectNoExecute, 2
			i.changed(nil, none, time.Now())
			if !admits() {
				t.Fatalf("denied after %d rules", n)
			}
			i.changed(none, execute, time.Now())
		}
		if admits() {
			t.Error("the rules of others do not count")
		}
		i.Deleted(oneDevice(19, resourceapi.DeviceTaintEffectNoExecute))
		if !admits() {
			t.Error("a rule counts that was deleted before it evicted")
		}
		i.Index.DeletePod("team-02", "trainer-00019")
		if admits() {
			t.Error("a pod that was evicted by a deleted rule does not count")
		}
		for n := range 19 {
			i.Index.DeletePod(fmt.Sprintf("team-%02d", n/8), fmt.Sprintf("trainer-%05d", n))
		}
		if admits() {
			t.Error("pods that were evicted do not count")
		}
		<-time.After(10 * time.Minute)
		if !admits() {
			t.Error("rules count that began before the window")
		}
	})
}

// TestAdmittedAndNotStored: a write that another webhook refuses counts for a minute.
func TestAdmittedAndNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{})
		request := func(n int) admission.Request { return updates(t, oneDevice(n, resourceapi.DeviceTaintEffectNone)) }
		for n := range 20 {
			if got := h.Handle(t.Context(), request(n)); !got.Allowed {
				t.Fatal(got.Result.Message)
			}
		}
		if h.Handle(t.Context(), request(20)).Allowed {
			t.Error("admitted rules do not count")
		}
		<-time.After(storedWithin + time.Second)
		if got := h.Handle(t.Context(), request(20)); !got.Allowed {
			t.Errorf("rules count that were never stored: %s", got.Result.Message)
		}
	})
}

// TestWritesOfStrangers is an attack: reviews of rules that are never stored, from pods that reach the webhook. They do not
// count against others.
func TestWritesOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		i.rules = true
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		forged := func(n int) admission.Request {
			rule := oneDevice(n, resourceapi.DeviceTaintEffectNone)
			rule.Name, rule.Annotations = fmt.Sprint("forged-", n), map[string]string{v1alpha1.AcknowledgementAnnotation: "pods<=9999,namespaces<=999,devices<=9999"}
			return updates(t, rule)
		}
		for n := range guard.MostStarts + 1 {
			if got := h.Handle(caller.With(t.Context(), "10.0.0.1"), forged(100+n%800)); !got.Allowed {
				t.Fatal(got.Result.Message)
			}
		}
		for name, tt := range map[string]struct {
			ctx  context.Context
			want bool
		}{
			"an API server with a certificate":    {t.Context(), true},
			"an API server without a certificate": {caller.With(t.Context(), "10.1.0.1"), true},
			"a stranger":                          {caller.With(t.Context(), "10.0.0.1"), false},
		} {
			request := updates(t, oneDevice(20, resourceapi.DeviceTaintEffectNone))
			request.DryRun = new(true)
			if got := h.Handle(tt.ctx, request); got.Allowed != tt.want {
				t.Errorf("%s: allowed: %t: %v", name, got.Allowed, got.Result)
			}
		}
		<-time.After(storedWithin + time.Second)
		request := updates(t, oneDevice(20, resourceapi.DeviceTaintEffectNone))
		if all := i.beginnings.admitted.of("10.0.0.1", time.Now()); h.Handle(caller.With(t.Context(), "10.0.0.1"), request).Allowed || len(all.all) > 0 {
			t.Errorf("%d writes are remembered that are not stored, and there is room for more", len(all.all))
		}
	})
}

// TestMostCallers: what is remembered of callers is bounded, and those that are known to be API servers stay.
func TestMostCallers(t *testing.T) {
	var c callers
	c.of("", time.Unix(1, 0)).add(beginning{at: time.Unix(1, 0)}, 1, true)
	for n := range 1000 {
		a := c.of(fmt.Sprint(n), time.Unix(int64(n), 0))
		for k := range 2 * mostAdmitted >> 20 {
			a.add(beginning{object: fmt.Sprint(k), at: time.Unix(int64(n), 0)}, 1<<20, true)
		}
		if len(a.all) != mostAdmitted>>20 || a.omitted.IsZero() {
			t.Fatalf("%d writes of 1 MiB are remembered", len(a.all))
		}
	}
	if n := len(slices.Collect(c.all.All())); n != 16 || len(c.of("", time.Unix(1000, 0)).all) != 1 || len(c.of("999", time.Unix(1000, 0)).all) == 0 {
		t.Errorf("%d callers are remembered", n)
	}
}

// TestStoredMeanwhile: writes that are stored while the guard counts are counted once.
func TestStoredMeanwhile(t *testing.T) {
	const writes = 1000
	now := time.Unix(1, 0)
	var b beginnings
	var stored sync.WaitGroup
	admitted := b.admitted.of("", now)
	var all []beginning
	for n := range writes {
		all = append(all, beginning{object: fmt.Sprint("rule-", n), at: now, affects: func() guard.Hit { return guard.Hit{} }})
		admitted.add(all[n], 1, true)
	}
	stored.Go(func() {
		for _, one := range all {
			b.observe(one)
		}
	})
	for done := false; !done; {
		starts, _ := b.starts(admitted, "", now, guard.DefaultWindow)
		if len(starts) != writes {
			t.Errorf("%d writes are counted %d times", writes, len(starts))
			break
		}
		unstored, _ := admitted.starts("", now, guard.DefaultWindow)
		done = len(unstored) == 0
	}
	stored.Wait()
}

// TestStoredWrites: a write that is stored counts once, whatever other webhooks have changed, and however often the API
// server asked for it.
func TestStoredWrites(t *testing.T) {
	var c callers
	a := c.of("10.1.0.1", time.Unix(1, 0))
	for _, spec := range []string{"a", "b", "b", "c"} {
		a.add(beginning{object: "rule", spec: spec, at: time.Unix(1, 0)}, 1, true)
	}
	for _, tt := range []struct{ stored, left string }{{"b", "ac"}, {"changed", "c"}, {"c", ""}, {"c", ""}} {
		c.stored(beginning{object: "rule", spec: tt.stored})
		left := ""
		for _, one := range a.all {
			left += one.spec.(string)
		}
		if left != tt.left {
			t.Errorf("%s is stored: %q is left, want %q", tt.stored, left, tt.left)
		}
	}
}

// TestLeftBeforeStored: pods that a rule evicts before this replica sees it stored count as those after.
func TestLeftBeforeStored(t *testing.T) {
	for _, seen := range []bool{false, true} {
		t.Run(fmt.Sprint("seen ", seen), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := crowd(t, 1000)
				i.rules = true
				h := guardOf(t, i, v1alpha1.StewardConfiguration{})
				for n := range 20 {
					none := oneDevice(n, resourceapi.DeviceTaintEffectNone)
					if got := h.Handle(t.Context(), updates(t, none)); !got.Allowed {
						t.Fatal(got.Result.Message)
					}
					i.Index.DeletePod(fmt.Sprintf("team-%02d", n/8), fmt.Sprintf("trainer-%05d", n)) // by the evictor
					if seen {
						execute := none.DeepCopy()
						execute.Spec.Taint.Effect, execute.Generation = resourceapi.DeviceTaintEffectNoExecute, 2
						i.changed(none, execute, time.Now())
					}
				}
				if h.Handle(t.Context(), updates(t, oneDevice(50, resourceapi.DeviceTaintEffectNone))).Allowed {
					t.Error("20 pods were evicted by rules of the last moment, and another one is admitted")
				}
			})
		})
	}
}

// TestStoredAgain: a rule that is toggled back to what it was counts while the stored versions arrive one by one.
func TestStoredAgain(t *testing.T) {
	i := crowd(t, 1000)
	i.rules = true
	h := guardOf(t, i, v1alpha1.StewardConfiguration{})
	none := oneDevice(0, resourceapi.DeviceTaintEffectNone)
	execute := none.DeepCopy()
	execute.Spec.Taint.Effect, execute.Generation = resourceapi.DeviceTaintEffectNoExecute, 2
	again := none.DeepCopy()
	again.Generation = 3
	last := execute.DeepCopy()
	last.Generation = 4
	for _, w := range []struct{ old, rule *resourceapi.DeviceTaintRule }{{none, execute}, {again, last}} {
		request := updates(t, w.old)
		request.Object.Raw = encoded(t, w.rule)
		if got := h.Handle(t.Context(), request); !got.Allowed {
			t.Fatal(got.Result.Message)
		}
	}
	i.changed(none, execute, time.Now())
	i.changed(execute, again, time.Now())
	pods := 0
	starts, _ := i.beginnings.starts(i.beginnings.admitted.of("", time.Now()), "", time.Now(), guard.DefaultWindow)
	for _, s := range starts {
		pods += len(s.Hit.Pods)
	}
	if pods != 1 {
		t.Errorf("%d pods count while the last version is on its way, want 1", pods)
	}
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAcknowledgedSum: an acknowledgement is about the sum.
func TestAcknowledgedSum(t *testing.T) {
	h := guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{})
	for n := range 20 {
		if got := h.Handle(t.Context(), updates(t, oneDevice(n, resourceapi.DeviceTaintEffectNone))); !got.Allowed {
			t.Fatal(got.Result.Message)
		}
	}
	for acknowledged, want := range map[string]bool{"pods<=1": false, "pods<=20": false, "pods<=21": true} {
		rule := oneDevice(20, resourceapi.DeviceTaintEffectNone)
		rule.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: acknowledged}
		request := updates(t, rule)
		request.DryRun = new(true)
		if got := h.Handle(t.Context(), request); got.Allowed != want {
			t.Errorf("%s: allowed %v", acknowledged, got.Allowed)
		}
	}
}

// drains is the request to drain the devices of a node of a crowd; rate is absent for 0.
func drains(t testing.TB, node, rate int) admission.Request {
	t.Helper()
	d := v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", node)}}
	for n := range 8 {
		d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: fmt.Sprintf("node-%05d", node), Device: fmt.Sprint("gpu-", n)})
	}
	if rate > 0 {
		d.Spec.EvictionsPerMinute = new(int32(rate))
	}
	request := evicting(nil, nil)
	request.Name, request.Kind = d.Name, metav1.GroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceDrainKind))
	var err error
	if request.Object.Raw, err = json.Marshal(d); err != nil {
		t.Fatal(err)
	}
	return request
}

// TestMaintenance drains three nodes with eight pods each. At the default rate they begin at the
// same moment; drains that do not say their rate, or a faster one, evict at once, and exceed the
// 20 pods of the thresholds.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			window time.Duration
			rate   int
			pause  time.Duration
			nodes  int
			want   int
		}{
			"by default":                  {10 * time.Minute, v1alpha1.DrainRate, 0, 3, 3},
			"without end":                 {10 * time.Minute, v1alpha1.DrainRate, 0, 20, 5}, // 40 pods
			"without a rate":              {10 * time.Minute, 0, 0, 3, 2},
			"faster":                      {10 * time.Minute, v1alpha1.DrainRate + 1, 0, 3, 2},
			"one every five minutes":      {10 * time.Minute, 0, 5 * time.Minute, 3, 3},
			"at a rate":                   {6 * time.Minute, 1, 0, 20, 6}, // 6 pods each
			"at a rate that is too large": {6 * time.Minute, 2, 0, 20, 5},
		} {
			i := crowd(t, 1000)
			h := guardOf(t, i, v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{Window: &metav1.Duration{Duration: tt.window}}})
			admitted := 0
			for node := range tt.nodes {
				if h.Handle(t.Context(), drains(t, node, tt.rate)).Allowed {
					admitted++
					i.changed(nil, stored(t, drains(t, node, tt.rate)), time.Now())
				}
				<-time.After(tt.pause)
			}
			if admitted != tt.want {
				t.Errorf("%s: %d of %d drains were admitted, want %d", name, admitted, tt.nodes, tt.want)
			}
		}
	})
}

// TestMaintenanceIsNoCover: drains do not let rules evict more at once.
func TestMaintenanceIsNoCover(t *testing.T) {
	h := guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{})
	for node := range 2 {
		if got := h.Handle(t.Context(), drains(t, node, v1alpha1.DrainRate)); !got.Allowed {
			t.Fatal(got.Result.Message)
		}
	}
	admitted := 0
	for n := range 64 {
		if h.Handle(t.Context(), updates(t, oneDevice(100+n, resourceapi.DeviceTaintEffectNone))).Allowed {
			admitted++
		}
	}
	if admitted != 20 {
		t.Errorf("%d rules were admitted, want 20", admitted)
	}
}

// TestSlowerAgain: pods that a drain evicted at once count so, also when a slower drain has its name.
func TestSlowerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		gone := 0
		for node := range 20 {
			if !h.Handle(t.Context(), drains(t, node, v1alpha1.DrainRateMax)).Allowed {
				continue
			}
			fast := stored(t, drains(t, node, v1alpha1.DrainRateMax))
			i.changed(nil, fast, time.Now())
			for n := range 8 {
				k := 8*node + n
				p := i.Index.Pod(fmt.Sprintf("team-%02d", k/8), fmt.Sprintf("trainer-%05d", k))
				if p == nil {
					t.Fatalf("pod %d is missing", k)
				}
				i.Index.DeletePod(p.Namespace, p.Name)
				gone++
			}
			<-time.After(5 * time.Second)
			i.Deleted(fast)
			if h.Handle(t.Context(), drains(t, node, 1)).Allowed {
				i.changed(nil, stored(t, drains(t, node, 1)), time.Now())
			}
		}
		if gone > 20 {
			t.Errorf("%d pods were evicted at 6000 a minute within %d s, and the threshold is 20", gone, gone/8*5)
		}
	})
}

// TestNamesReturn: pods that a rule evicted before it was deleted count, also when others have their names.
func TestNamesReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		for n := range 20 {
			rule := oneDevice(n, resourceapi.DeviceTaintEffectNoExecute)
			i.changed(nil, rule, time.Now())
			name := fmt.Sprintf("trainer-%05d", n)
			pod := i.Index.Pod(fmt.Sprintf("team-%02d", n/8), name).DeepCopy()
			i.Index.DeletePod(pod.Namespace, pod.Name)
			<-time.After(time.Second)
			i.Deleted(rule)
			pod.UID = "next-" + pod.UID
			claim := i.Index.Claim(pod.Namespace, pod.Name+"-gpu-x7k2p").DeepCopy()
			i.Index.DeleteClaim(claim.Namespace, claim.Name)
			claim.Name, claim.UID = pod.Name+"-gpu-next", "next-"+claim.UID
			claim.Status.ReservedFor[0].UID, claim.OwnerReferences[0].UID = pod.UID, pod.UID
			pod.Status.ResourceClaimStatuses[0].ResourceClaimName = &claim.Name
			i.Index.SetClaim(claim)
			i.Index.SetPod(pod) // that of the StatefulSet
		}
		request := updates(t, oneDevice(100, resourceapi.DeviceTaintEffectNone))
		if h.Handle(t.Context(), request).Allowed {
			t.Error("20 pods that were evicted within 20 s do not count, since others have their names")
		}
	})
}

// TestFasterDrains: drains that begin at the default rate and are made faster afterwards evict no
// more at once than others.
func TestFasterDrains(t *testing.T) {
	i := crowd(t, 1000)
	h := guardOf(t, i, v1alpha1.StewardConfiguration{})
	admitted := 0
	for node := range 5 {
		if got := h.Handle(t.Context(), drains(t, node, v1alpha1.DrainRate)); !got.Allowed {
			t.Fatal(got.Result.Message)
		}
		i.changed(nil, stored(t, drains(t, node, v1alpha1.DrainRate)), time.Now())
	}
	for node := range 5 {
		request := drains(t, node, v1alpha1.DrainRateMax)
		request.OldObject.Raw = drains(t, node, v1alpha1.DrainRate).Object.Raw
		if h.Handle(t.Context(), request).Allowed {
			admitted++
			i.changed(stored(t, drains(t, node, v1alpha1.DrainRate)), stored(t, request), time.Now())
		}
	}
	if admitted != 2 { // of 8 pods each
		t.Errorf("%d of 5 drains were made faster, want 2", admitted)
	}
}

// stored is the drain of a request as an informer has it.
func stored(t testing.TB, request admission.Request) *v1alpha1.DeviceDrain {
	t.Helper()
	d := &v1alpha1.DeviceDrain{}
	if err := json.Unmarshal(request.Object.Raw, d); err != nil {
		t.Fatal(err)
	}
	d.CreationTimestamp, d.Generation = metav1.Now(), 1
	return d
}

// TestRuleBegan: authors of rules cannot make a rule look older than it is. A rule that was
// changed began when the controller saw that, and now as long as the controller has not.
func TestRuleBegan(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	created := metav1.NewTime(now.Add(-time.Hour))
	written := func(status metav1.ConditionStatus, generation int64, ago time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: "EvictionInProgress", Status: metav1.ConditionTrue, LastTransitionTime: created},
			{Type: guard.BeganCondition, Status: status, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
	for name, tt := range map[string]struct {
		generation int64
		conditions []metav1.Condition
		ago        time.Duration
	}{
		"never changed":                 {1, nil, time.Hour},
		"never changed, and written":    {1, written(metav1.ConditionTrue, 1, time.Minute), time.Hour},
		"changed":                       {2, nil, 0},
		"changed, and written":          {2, written(metav1.ConditionTrue, 2, time.Minute), time.Minute},
		"changed since it was written":  {3, written(metav1.ConditionTrue, 2, time.Minute), 0},
		"written of another effect":     {2, written(metav1.ConditionFalse, 2, time.Minute), 0},
		"written before it was created": {2, written(metav1.ConditionTrue, 2, 2*time.Hour), 0},
		"written in the future":         {2, written(metav1.ConditionTrue, 2, -time.Hour), 0},
	} {
		rule := oneDevice(0, resourceapi.DeviceTaintEffectNoExecute)
		rule.CreationTimestamp, rule.Generation, rule.Status.Conditions = created, tt.generation, tt.conditions
		rule.Spec.Taint.TimeAdded = &metav1.Time{Time: now.Add(-100 * time.Hour)}
		if got := now.Sub(ruleBegan(rule, now)); got != tt.ago {
			t.Errorf("%s: %s ago, want %s", name, got, tt.ago)
		}
	}
}

// TestRestart: a replica that starts counts the rules that were changed within the window, and
// no others.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := crowd(t, 1000)
		h := guardOf(t, i, v1alpha1.StewardConfiguration{})
		for n := range 40 {
			rule := oneDevice(n, resourceapi.DeviceTaintEffectNoExecute)
			rule.Generation, rule.CreationTimestamp = 2, metav1.NewTime(time.Now().Add(-24*time.Hour))
			ago := time.Hour
			if n < 20 {
				ago = 5 * time.Minute
			}
			rule.Status.Conditions = []metav1.Condition{{Type: guard.BeganCondition, Status: metav1.ConditionTrue, ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago))}}
			i.changed(nil, rule, time.Now())
		}
		request := updates(t, oneDevice(50, resourceapi.DeviceTaintEffectNone))
		request.DryRun = new(true)
		if got := h.Handle(t.Context(), request); got.Allowed || !strings.Contains(got.Result.Message, "together with the 20 evictions") {
			t.Errorf("allowed %v: %v", got.Allowed, got.Result)
		}
		<-time.After(5 * time.Minute)
		if got := h.Handle(t.Context(), request); !got.Allowed {
			t.Errorf("ten minutes after they began: %s", got.Result.Message)
		}
	})
}
