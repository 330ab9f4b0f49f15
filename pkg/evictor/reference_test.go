package evictor

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// mustLeave is the naive reference: must the pod have left its devices by the moment
// at? It asks the sentences of the API documentation one by one and knows no verdicts,
// no order and no minimum.
func (w world) mustLeave(settings Semantics, at *big.Int) bool {
	pod := w.pod
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" ||
		pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	for _, claim := range w.claims {
		if !w.uses(claim) || claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			for _, taint := range w.taints[DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}] {
				if taint.Effect == resourceapi.DeviceTaintEffectNoExecute &&
					over(taint, result.Tolerations, claim.Status.Allocation, settings, at) {
					return true
				}
			}
		}
	}
	return false
}

func (w world) uses(claim *resourceapi.ResourceClaim) bool {
	reserved := false
	for _, consumer := range claim.Status.ReservedFor {
		reserved = reserved || consumer.UID == w.pod.UID
	}
	mine := len(claim.OwnerReferences) == 1 && claim.OwnerReferences[0].UID == w.pod.UID
	if extended := w.pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName == claim.Name {
		return reserved && mine
	}
	for _, use := range w.pod.Spec.ResourceClaims {
		if use.Name == claim.Name {
			return reserved && (use.ResourceClaimTemplateName == nil || mine)
		}
	}
	return false
}

// over reports whether the time with this taint is over. The seconds of every matching
// toleration have to pass since the shortest of them is what the API promises.
func over(taint Taint, tolerations []resourceapi.DeviceToleration, allocation *resourceapi.AllocationResult, settings Semantics, at *big.Int) bool {
	added := taint.Since
	if taint.TimeAdded != nil {
		added = taint.TimeAdded.Time
	}
	from := added
	if t := allocation.AllocationTimestamp; t != nil && settings.TolerationStart == StartMaxOfTaintAndAllocation && t.After(added) {
		from = t.Time
	}
	matched, passed := false, false
	for _, t := range tolerations {
		matches := (t.Key == "" || t.Key == taint.Key) &&
			(t.Operator == resourceapi.DeviceTolerationOpExists || (t.Operator == "" || t.Operator == resourceapi.DeviceTolerationOpEqual) && t.Value == taint.Value)
		switch {
		case !matches || t.Effect == resourceapi.DeviceTaintEffectNoSchedule:
			continue
		case t.Effect == "" && settings.EmptyEffect == toleration.EmptyEffectNoSchedule:
			continue
		case t.Effect == "" || t.TolerationSeconds == nil:
			return false
		}
		matched = true
		end := big.NewInt(max(*t.TolerationSeconds, 0))
		end.Add(end, big.NewInt(from.Unix()))
		passed = passed || at.Cmp(end) >= 0
	}
	if !matched {
		return at.Cmp(big.NewInt(added.Unix())) >= 0
	}
	return passed
}

// agree compares the decision with the reference at the moments around it.
func agree(t *testing.T, data []byte) {
	b := &bytes{data}
	settings := settingsOf(b)
	w := worldOf(b)
	verdict := DecidePod(w.pod, w, w, settings, start)
	for second := -2; second < 30; second++ {
		at := start.Add(time.Duration(second) * time.Second)
		got := verdict.Evict() && !at.Before(verdict.At)
		if want := w.mustLeave(settings, big.NewInt(at.Unix())); got != want {
			t.Fatalf("at %ds: evicted %t, by the reference %t\n%s\nfrom %v", second, got, want, verdict.Explain(start), data)
		}
	}
	far := time.Date(9999, 12, 31, 23, 59, 58, 0, time.UTC)
	if got, want := verdict.Evict() && !far.Before(verdict.At), w.mustLeave(settings, big.NewInt(far.Unix())); got != want {
		t.Fatalf("in the year 9999: evicted %t, by the reference %t\n%s", got, want, verdict.Explain(start))
	}
	stable(t, w, settings, verdict)
}

// stable checks what no reference says: the order of claims and taints changes
// nothing, and the verdict of a pod is the merge of those of its claims.
func stable(t *testing.T, w world, settings Semantics, verdict Verdict) {
	for i := range verdict.Reasons {
		if verdict.Reasons[i].At.Before(verdict.At) {
			t.Fatalf("reason %d is earlier than the verdict: %s", i, verdict.Explain(start))
		}
	}
	turned := world{taints: map[DeviceID][]Taint{}, claims: w.claims, pod: w.pod.DeepCopy()}
	for d, taints := range w.taints {
		for i := len(taints) - 1; i >= 0; i-- {
			turned.taints[d] = append(turned.taints[d], taints[i])
		}
	}
	for i, n := 0, len(w.pod.Spec.ResourceClaims); i < n; i++ {
		turned.pod.Spec.ResourceClaims[i] = w.pod.Spec.ResourceClaims[n-1-i]
	}
	if again := DecidePod(turned.pod, turned, turned, settings, start); !again.equal(verdict) {
		t.Fatalf("another order, another verdict:\n%s\n%s", verdict.Explain(start), again.Explain(start))
	}
	if !Merge(verdict, verdict).equal(verdict) {
		t.Fatalf("merged with itself it changes:\n%s", verdict.Explain(start))
	}
}

func TestDecideAgreesWithReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	evicted := 0
	const worlds = 20_000
	for range worlds {
		data := make([]byte, 160)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		agree(t, data)
		b := &bytes{data}
		settings := settingsOf(b)
		if w := worldOf(b); DecidePod(w.pod, w, w, settings, start).Evict() {
			evicted++
		}
	}
	if evicted < worlds/10 || evicted > worlds*9/10 {
		t.Errorf("%d of %d worlds evict: the generator shows only one side", evicted, worlds)
	}
}

func FuzzDecidePod(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a claim with a device with a taint and a toleration that never ends"))
	f.Fuzz(agree)
}
