package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

const (
	// maxRequests is how many EvictionRequests a drain has at a time, maxRequested how many
	// pods status.requested has; the schema has that number, too.
	maxRequests  = 128
	maxRequested = 256
	// AnswerTime is how long a request can be without any status, and moveTime how long a
	// status can stay as it is. Kubernetes passes an eviction on to the next responder when
	// one has not reported for 20 minutes.
	AnswerTime = time.Minute
	moveTime   = 25 * time.Minute
)

// Requests are the EvictionRequests of a drain.
type Requests struct {
	// Known is false if they could not be listed this time. Then nothing is concluded.
	Known bool
	// Stored are those that exist, by the UID of their pod.
	Stored map[types.UID]Request
	// Refused are pods whose request the API server refused, with what it said.
	Refused map[types.UID]string
	// Reason and Message say why they cannot be used at all; empty if they can.
	Reason, Message string
}

// A Request is an EvictionRequest that exists.
type Request struct {
	Namespace, Name string
	// Answered is true once it has a status.
	Answered bool
	// Moved is when its status, or that of the Eviction that serves it, changed last; zero
	// if they do not say.
	Moved time.Time
	// Failed is what its condition Failed says, if that is true.
	Failed string
}

// A Fallback is a pod that was asked by an EvictionRequest and is evicted through the
// Eviction API instead.
type Fallback struct {
	Pod             v1alpha1.DrainPod
	Reason, Message string
}

// follow looks at the requests before anything is decided. Pods that are gone count as
// evicted, and requests that came to nothing fall back. A drain that has stopped keeps only
// those of pods that are on their way out.
func (d *Decision) follow(in Input, c conditions, stopped bool) {
	pods := in.pods()
	d.Status.Requested = slices.DeleteFunc(d.Status.Requested, func(r v1alpha1.DrainRequest) bool {
		pod, holds := pods[r.UID]
		if !holds && r.Fallback == "" {
			d.Status.Counts.Evicted++
		}
		return !holds || stopped && !leaves(pod, in.Evicting)
	})
	if in.Drain.Spec.Via != v1alpha1.ViaEvictionRequest {
		if in.Requests.Known && len(in.Requests.Stored) == 0 || in.Requests.Reason != "" {
			meta.RemoveStatusCondition(&d.Status.Conditions, v1alpha1.DrainViaEvictionRequest)
		}
		return
	}
	all, message := d.unusable(in)
	stuck := make([]Fallback, len(d.Status.Requested))
	for i, r := range d.Status.Requested {
		pod := pods[r.UID]
		if r.Fallback != "" || leaves(pod, in.Evicting) {
			continue
		}
		stuck[i].Pod = v1alpha1.DrainPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		stuck[i].Reason, stuck[i].Message = d.stuck(in, r)
		if stuck[i].Reason == v1alpha1.FallbackNotAnswered && all == "" {
			all, message = stuck[i].Reason, stuck[i].Message
		}
	}
	d.fallBack(in, stuck, all)
	if all != "" {
		c.set(v1alpha1.DrainViaEvictionRequest, false, all, message)
		return
	}
	c.set(v1alpha1.DrainViaEvictionRequest, true, "Requesting", d.requestsText())
}

// fallBack gives up the requests that are stuck. If the whole drain falls back, for the
// reason all, it gives up the others, too; but not those that are processed, unless they
// cannot be seen any more.
func (d *Decision) fallBack(in Input, stuck []Fallback, all string) {
	for i := range stuck {
		r := &d.Status.Requested[i]
		switch processed := in.Requests.Stored[r.UID].Answered; {
		case stuck[i].Pod.UID == "": // it has fallen back, or is on its way out
		case all != "" && (all != v1alpha1.FallbackNotAnswered || !processed):
			r.Fallback = all
		case stuck[i].Reason != "":
			r.Fallback = stuck[i].Reason
			d.FellBack = append(d.FellBack, stuck[i])
		}
	}
}

// unusable says why no more requests are made, empty if they are. Once a drain has fallen
// back it remains so.
func (d *Decision) unusable(in Input) (reason, message string) {
	was := condition.Find(d.Status.Conditions, v1alpha1.DrainViaEvictionRequest)
	if was.Status == metav1.ConditionFalse {
		return was.Reason, was.Message
	}
	if in.Requests.Reason == "" {
		return "", ""
	}
	return in.Requests.Reason, in.Requests.Message + "; the drain evicts pods through the Eviction API instead"
}

// stuck says why a request has come to nothing, empty if it may still help. It also decides
// again when that can change.
func (d *Decision) stuck(in Input, r v1alpha1.DrainRequest) (reason, message string) {
	if text, refused := in.Requests.Refused[r.UID]; refused {
		return v1alpha1.FallbackRefused, "the API server refused its EvictionRequest: " + text
	}
	if !in.Requests.Known {
		return "", ""
	}
	stored := in.Requests.Stored[r.UID]
	if stored.Failed != "" {
		return v1alpha1.FallbackFailed, "its EvictionRequest failed: " + stored.Failed
	}
	since, most := r.Time.Time, AnswerTime
	if stored.Answered {
		most = moveTime
		if stored.Moved.After(since) && !stored.Moved.After(in.Now) {
			since = stored.Moved
		}
	}
	if until := since.Add(most); until.After(in.Now) {
		d.WakeAt(until)
		return "", ""
	}
	if !stored.Answered {
		return v1alpha1.FallbackNotAnswered, fmt.Sprintf("an EvictionRequest had no status after %s: the cluster seems to have no controller for EvictionRequests; the drain evicts pods through the Eviction API instead", AnswerTime)
	}
	return v1alpha1.FallbackStalled, fmt.Sprintf("the status of its EvictionRequest has not moved for %s", moveTime)
}

func (d *Decision) requestsText() string {
	back := 0
	for _, r := range d.Status.Requested {
		if r.Fallback != "" {
			back++
		}
	}
	text := fmt.Sprintf("%s asked to leave by EvictionRequests", plural.Of(len(d.Status.Requested)-back, "pod"))
	if back > 0 {
		text += fmt.Sprintf(", %d evicted through the Eviction API because their EvictionRequest failed", back)
	}
	return text
}

// pods are those that hold devices, by UID.
func (in *Input) pods() map[types.UID]Pod {
	pods := map[types.UID]Pod{}
	for _, holder := range in.Holders {
		for _, pod := range holder.Pods {
			pods[pod.UID] = pod
		}
	}
	return pods
}

// asked reports whether a pod has an open request.
func (d *Decision) asked(uid types.UID) bool {
	return slices.ContainsFunc(d.Status.Requested, func(r v1alpha1.DrainRequest) bool { return r.UID == uid && r.Fallback == "" })
}

// asks reports whether a pod is asked by a request rather than evicted. Kubernetes refuses
// requests for pods of a PodGroup.
func (d *Decision) asks(in Input, pod Pod) bool {
	return in.Drain.Spec.Via == v1alpha1.ViaEvictionRequest && pod.Spec.SchedulingGroup == nil &&
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainViaEvictionRequest) &&
		!slices.ContainsFunc(d.Status.Requested, func(r v1alpha1.DrainRequest) bool { return r.UID == pod.UID })
}

// ask notes that a pod is asked now.
func (d *Decision) ask(in Input, pod Pod) {
	d.Status.Requested = append(d.Status.Requested, v1alpha1.DrainRequest{UID: pod.UID, Time: metav1.NewMicroTime(microsecond(in.Now))})
	if len(d.Status.Requested) > maxRequested {
		at := slices.IndexFunc(d.Status.Requested, func(r v1alpha1.DrainRequest) bool { return r.Fallback != "" })
		d.Status.Requested = slices.Delete(d.Status.Requested, at, at+1)
	}
}

// full reports whether no more requests can be made for now.
func (d *Decision) full() bool {
	open := 0
	for _, r := range d.Status.Requested {
		if r.Fallback == "" {
			open++
		}
	}
	return open >= maxRequests
}

// stopRequests drops the requests of pods that are not on their way out: the drain has
// stopped, or takes another way.
func (d *Decision) stopRequests(in Input) {
	pods := in.pods()
	d.Status.Requested = slices.DeleteFunc(d.Status.Requested, func(r v1alpha1.DrainRequest) bool {
		pod, holds := pods[r.UID]
		return holds && !leaves(pod, in.Evicting)
	})
}

// reconcileRequests compares the requests that there should be with those that exist.
func (d *Decision) reconcileRequests(in Input) {
	if !in.Requests.Known {
		return
	}
	wanted, pods := map[types.UID]bool{}, in.pods()
	for _, r := range d.Status.Requested {
		if r.Fallback != "" {
			continue
		}
		wanted[r.UID] = true
		if _, exists := in.Requests.Stored[r.UID]; !exists && !leaves(pods[r.UID], in.Evicting) {
			pod := pods[r.UID]
			d.Ask = append(d.Ask, v1alpha1.DrainPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
		}
	}
	for uid, request := range in.Requests.Stored {
		if !wanted[uid] {
			d.Withdraw = append(d.Withdraw, request)
		}
	}
	slices.SortFunc(d.Withdraw, func(a, b Request) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
