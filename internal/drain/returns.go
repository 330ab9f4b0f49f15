package drain

import (
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// maxAttempts is how many attempts are remembered; the schema has the number, too.
const maxAttempts = 512

func (d *Decision) attempt(uid types.UID) *v1alpha1.DrainAttempt {
	if d.attempts == nil {
		d.attempts = map[types.UID]int{}
		for i, a := range d.Status.Attempts {
			d.attempts[a.UID] = i
		}
	}
	i, known := d.attempts[uid]
	if !known {
		return nil
	}
	return &d.Status.Attempts[i]
}

// microsecond is a time as the status keeps it.
func microsecond(at time.Time) time.Time { return at.Truncate(time.Microsecond) }

// begin notes an attempt that begins now, unless one goes on.
func (d *Decision) begin(uid types.UID, now time.Time) {
	known := d.attempt(uid)
	switch {
	case known == nil:
		d.attempts[uid] = len(d.Status.Attempts)
		d.Status.Attempts = append(d.Status.Attempts, v1alpha1.DrainAttempt{UID: uid, Count: 1, Time: metav1.NewMicroTime(microsecond(now))})
	case known.Returned:
		known.Count, known.Time, known.Returned = known.Count+1, metav1.NewMicroTime(microsecond(now)), false
	}
	if over := len(d.Status.Attempts) - maxAttempts; over > 0 {
		slices.SortStableFunc(d.Status.Attempts, func(a, b v1alpha1.DrainAttempt) int { return a.Time.Compare(b.Time.Time) })
		d.Status.Attempts = slices.Delete(d.Status.Attempts, 0, over)
		d.attempts = nil
	}
}

// returnKey is by whom a pod that got a new claim is known: its owner, or itself.
func returnKey(pod *candidate) types.UID {
	if owner := controllerOf(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}

// noteReturns remembers who came back: pods that were made since pods of their claim were
// evicted, and pods whose claim was allocated since the cordon took effect.
func (d *Decision) noteReturns(in Input, pods []*candidate, from time.Time) {
	for _, pod := range pods {
		if leaves(pod.Pod, in.Evicting) {
			continue
		}
		for _, claim := range pod.claims {
			known := d.attempt(claim.UID)
			if known != nil && !known.Returned && outlives(claim) && !pod.CreationTimestamp.Time.Before(known.Time.Truncate(time.Second)) {
				known.Returned = true
			}
			if since(in, claim, from) == "" {
				continue
			}
			key := returnKey(pod)
			if d.attempt(key) == nil {
				d.begin(key, in.Now)
			}
			// At first sight it has come back; later on, if it is another one.
			if known := d.attempt(key); known.Time.Time.Equal(microsecond(in.Now)) || !allocated(claim).Before(known.Time.Truncate(time.Second)) {
				known.Returned = true
			}
		}
	}
}

// since returns how a claim was allocated although the drain had begun: by a toleration of
// the cordon, or after it took effect; "" if neither. Times of the API have no unit below a
// second.
func since(in Input, claim *resourceapi.ResourceClaim, from time.Time) string {
	at := allocated(claim)
	switch {
	case at.IsZero():
	case at.After(in.Drain.CreationTimestamp.Time) && tolerates(claim, in.Drain, in.Devices.Names):
		return v1alpha1.BlockedTolerated
	case !from.IsZero() && at.After(from.Truncate(time.Second)):
		return v1alpha1.BlockedReallocated
	}
	return ""
}

// returned blocks a pod that came back until the back-off is over.
func (d *Decision) returned(in Input, pod *candidate, from time.Time) *v1alpha1.DrainBlock {
	for _, claim := range pod.claims {
		reason, key := v1alpha1.BlockedReused, claim.UID
		if how := since(in, claim, from); how != "" {
			reason, key = how, returnKey(pod)
		} else if !outlives(claim) {
			continue
		}
		known := d.attempt(key)
		if known == nil || !known.Returned {
			continue
		}
		retry := known.Time.Add(in.Settings.backoff(known.Count))
		if !retry.After(in.Now) {
			continue
		}
		d.WakeAt(retry)
		// The API keeps whole seconds: none must be promised too early.
		at := metav1.NewTime(retry.Add(time.Second - 1).Truncate(time.Second))
		return &v1alpha1.DrainBlock{Reason: reason, Claim: claim.Name, Owner: ownerOf(pod), RetryTime: &at}
	}
	return nil
}

// beginAll notes that pods are evicted now.
func (d *Decision) beginAll(in Input, pod *candidate, from time.Time) {
	for _, claim := range pod.claims {
		if outlives(claim) {
			d.begin(claim.UID, in.Now)
		}
		if since(in, claim, from) != "" {
			d.begin(returnKey(pod), in.Now)
		}
	}
}
