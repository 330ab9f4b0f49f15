package impact

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// replace evicts the pods on some of the first devices. Pods with the same names follow them, on devices further on.
func replace(i *Estimator, round, pods, shift int, evicts func(pool, device string) bool) (evicted int) {
	for n := range pods {
		namespace, name := fmt.Sprintf("team-%02d", n/8), fmt.Sprintf("trainer-%05d", n)
		pod := i.Index.Pod(namespace, name).DeepCopy()
		claim := i.Index.Claim(namespace, *pod.Status.ResourceClaimStatuses[0].ResourceClaimName).DeepCopy()
		result := &claim.Status.Allocation.Devices.Results[0]
		if !evicts(result.Pool, result.Device) {
			continue
		}
		evicted++
		i.Index.DeletePod(namespace, name)
		i.Index.DeleteClaim(namespace, claim.Name)
		pod.UID, claim.UID, claim.Name = types.UID(fmt.Sprint("pod-", round, "-", n)), types.UID(fmt.Sprint("claim-", round, "-", n)), fmt.Sprint(name, "-gpu-", round)
		claim.OwnerReferences[0].UID, claim.Status.ReservedFor[0].UID = pod.UID, pod.UID
		k := n + shift
		result.Pool, result.Device = fmt.Sprintf("node-%05d", k/8), fmt.Sprint("gpu-", k%8)
		pod.Spec.NodeName, pod.Status.ResourceClaimStatuses[0].ResourceClaimName = result.Pool, &claim.Name
		i.Index.SetClaim(claim)
		i.Index.SetPod(pod)
	}
	return evicted
}

// write asks the guard, and lets this process see what is stored.
type write func(old, rule *resourceapi.DeviceTaintRule) bool

// toggleAll toggles one rule for all devices.
func toggleAll(i *Estimator, pods int, writes write) (evicted int) {
	none := oneDevice(0, resourceapi.DeviceTaintEffectNone)
	none.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	execute := none.DeepCopy()
	execute.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	for round := range 6 {
		none.Generation, execute.Generation = int64(2*round+1), int64(2*round+2)
		if writes(none, execute) {
			evicted += replace(i, round, pods, 0, func(string, string) bool { return true })
			i.changed(execute, none, time.Now())
		}
	}
	return evicted
}

// followAll creates a rule for each device on which a pod is, or comes to be.
func followAll(i *Estimator, pods int, writes write) (evicted int) {
	for round := range 6 {
		admitted := map[string]bool{}
		for n := range pods * (round + 1) {
			rule := oneDevice(n, resourceapi.DeviceTaintEffectNoExecute)
			rule.Name = fmt.Sprint("rule-", round, "-", n)
			if writes(nil, rule) {
				admitted[*rule.Spec.DeviceSelector.Pool+*rule.Spec.DeviceSelector.Device] = true
			}
		}
		evicted += replace(i, round, pods, (round+1)*pods, func(pool, device string) bool { return admitted[pool+device] })
	}
	return evicted
}

// TestStatefulSet is an attack: pods that return under their names are evicted again and again. Each has a UID of its own.
func TestStatefulSet(t *testing.T) {
	const pods, threshold = 16, 20
	for name, attack := range map[string]func(*Estimator, int, write) int{"one rule, toggled": toggleAll, "rules that follow the pods": followAll} {
		for _, seen := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, seen stored: %t", name, seen), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					i := crowd(t, pods)
					i.Published = nil // the share of the devices is not what counts here
					i.rules = seen
					h := guardOf(t, i, v1alpha1.StewardConfiguration{})
					evicted := attack(i, pods, func(old, rule *resourceapi.DeviceTaintRule) bool {
						admitted := h.Handle(t.Context(), writes(t, old, rule)).Allowed
						if admitted && seen {
							i.changed(old, rule, time.Now())
						}
						return admitted
					})
					if evicted < pods || evicted > threshold {
						t.Errorf("%d pods were evicted within the window, the threshold is %d", evicted, threshold)
					}
				})
			})
		}
	}
}

// TestOnePodCountsOnce: a pod that two rules select, and a rule that is stopped before it evicts and begins again, count once.
func TestOnePodCountsOnce(t *testing.T) {
	now := time.Now()
	i := crowd(t, 1000)
	for n := range 20 {
		for _, of := range []string{"a", "b"} {
			rule := oneDevice(n, resourceapi.DeviceTaintEffectNoExecute)
			rule.Name += of
			i.changed(nil, rule, now)
		}
	}
	toggle(i, 0, 3)
	i.changed(nil, oneDevice(0, resourceapi.DeviceTaintEffectNoExecute), now)
	leaving := i.Index.Pod("team-00", "trainer-00000").DeepCopy()
	leaving.DeletionTimestamp = new(leaving.CreationTimestamp)
	i.Index.SetPod(leaving)
	uids := map[types.UID]bool{}
	for _, pod := range hitBegun(i, now, now).Pods {
		uids[pod.UID] = true
	}
	if len(uids) != 20 {
		t.Errorf("%d pods count, want 20", len(uids))
	}
	h := guardOf(t, i, v1alpha1.StewardConfiguration{})
	if got := h.Handle(t.Context(), writes(t, nil, oneDevice(5, resourceapi.DeviceTaintEffectNoExecute))); !got.Allowed {
		t.Errorf("a third rule for a pod that counts already: %s", got.Result.Message)
	}
}

// TestExcess measures what docs/taints.md says of replicas and restarts together: each process admits one threshold of pods
// that have left before it began.
func TestExcess(t *testing.T) {
	const threshold, replicas, restarts = 20, 2, 1
	admitted := 0
	for replica := range replicas {
		for start := range restarts + 1 {
			h := guardOf(t, crowd(t, 1000), v1alpha1.StewardConfiguration{}) // it sees no write of the others
			for n := range 64 {
				rule := oneDevice((2*replica+start)*64+n, resourceapi.DeviceTaintEffectNone)
				if h.Handle(t.Context(), updates(t, rule)).Allowed {
					admitted++
				}
			}
		}
	}
	if want := replicas * (restarts + 1) * threshold; admitted != want {
		t.Errorf("%d replicas with %d restart each admit %d pods, want %d", replicas, restarts, admitted, want)
	}
}

// TestMostPods: pods that cannot be remembered make the guard ask for an acknowledgement.
func TestMostPods(t *testing.T) {
	now := time.Now()
	i := crowd(t, 64)
	h := guardOf(t, i, v1alpha1.StewardConfiguration{})
	request := updates(t, oneDevice(1, resourceapi.DeviceTaintEffectNone))
	request.DryRun = new(true)
	if got := h.Handle(t.Context(), request); !got.Allowed {
		t.Fatal(got.Result.Message)
	}
	for n := range 3 {
		i.beginnings.observe(beginning{object: fmt.Sprint("rule-", n), at: now, affects: func() (hit guard.Hit) {
			for k := range guard.MostPods/2 + 1 {
				hit.Pods = append(hit.Pods, guard.Pod{UID: types.UID(fmt.Sprint(n, "-", k))})
			}
			return hit
		}})
	}
	kept := 0
	for _, one := range i.beginnings.all {
		kept += len(one.affected.pods)
	}
	if got := h.Handle(t.Context(), request); kept > guard.MostPods || got.Allowed || !strings.Contains(got.Result.Message, "more began than are counted") {
		t.Errorf("%d pods are kept: %+v", kept, got)
	}
}
