package evictor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Claims looks up a claim by namespace and name, nil if there is none.
type Claims interface {
	Claim(namespace, name string) *resourceapi.ResourceClaim
}

// ClaimsFunc is a function as [Claims].
type ClaimsFunc func(namespace, name string) *resourceapi.ResourceClaim

// Claim calls the function.
func (f ClaimsFunc) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return f(namespace, name)
}

// Spared says why a pod is not evicted whatever the taints of its devices are. Empty
// means that it is not spared.
type Spared string

const (
	// SparedUnscheduled is a pod that is on no node yet. It uses no device, and the
	// scheduler decides anew.
	SparedUnscheduled Spared = "it is not scheduled"
	// SparedFinished is a pod that has succeeded or failed: its containers are gone,
	// though its claims can still be reserved for it.
	SparedFinished Spared = "it has finished"
	// SparedTerminating is a pod that is being deleted, by whomever.
	SparedTerminating Spared = "it is being deleted already"
)

// Spare says whether and why pod is spared.
func Spare(pod *corev1.Pod) Spared {
	switch {
	case pod.DeletionTimestamp != nil:
		return SparedTerminating
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return SparedFinished
	case pod.Spec.NodeName == "":
		return SparedUnscheduled
	}
	return ""
}

// DecidePod says when and why pod has to leave its devices: the earliest verdict of
// its claims, with the reasons of all. Nobody is evicted whom [Spare] spares.
func DecidePod(pod *corev1.Pod, claims Claims, taints Taints, settings Settings, now time.Time) Verdict {
	if Spare(pod) != "" {
		return Verdict{}
	}
	var verdicts []Verdict
	for _, used := range Used(pod, claims, settings) {
		verdicts = append(verdicts, used.verdict(Decide(used.ResourceClaim, taints, settings, now)))
	}
	return Merge(verdicts...)
}

// UsedClaim is a claim that a pod uses.
type UsedClaim struct {
	*resourceapi.ResourceClaim
	// ExtendedResource says that the scheduler made the claim for extended resources.
	ExtendedResource bool
}

func (u UsedClaim) verdict(v Verdict) Verdict {
	if !u.ExtendedResource {
		return v
	}
	for i := range v.Reasons {
		v.Reasons[i].ExtendedResource = true
	}
	return v
}

// Used returns the claims that pod uses: those that its spec names or that were made
// for it from templates, and the one for its extended resources. A claim made for a
// pod must be owned by this pod (or its PodGroup), and any claim must be reserved for
// it, both by UID: it may be a claim for another pod of the same name.
func Used(pod *corev1.Pod, claims Claims, settings Settings) (used []UsedClaim) {
	for use := range usage.Uses(pod, claims.Claim, !settings.IgnorePodGroups) {
		used = append(used, UsedClaim{ResourceClaim: use.Claim, ExtendedResource: use.ExtendedResource})
	}
	return used
}

// Decide says when and why the pods that use claim have to leave its devices. Only
// what is stored in the allocation counts: the tolerations that were copied into it,
// not those of the spec. A claim that is not allocated evicts nobody. now counts only
// for taints of which nobody knows since when they are there.
func Decide(claim *resourceapi.ResourceClaim, taints Taints, settings Settings, now time.Time) Verdict {
	if claim.Status.Allocation == nil {
		return Verdict{}
	}
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	var verdict Verdict
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		device := DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		for _, taint := range taints.Taints(device) {
			if taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
				continue
			}
			seconds, forever := tolerance(result.Tolerations, taint.DeviceTaint, settings.EmptyEffect)
			if forever {
				continue
			}
			its := taint // only of those that count
			verdict.Reasons = append(verdict.Reasons, Reason{
				Taint: &its, Device: device, Claim: name, ClaimUID: claim.UID,
				TolerationSeconds: seconds,
				At:                due(taint, seconds, claim.Status.Allocation, settings.TolerationStart, now),
			})
		}
	}
	return verdict.settled()
}

// due is when the toleration of a taint ends.
func due(taint Taint, seconds *int64, allocation *resourceapi.AllocationResult, from TolerationStart, now time.Time) time.Time {
	start := now
	switch {
	case !taint.TimeAdded.IsZero():
		start = taint.TimeAdded.Time
	case !taint.Since.IsZero():
		start = taint.Since
	}
	if seconds == nil {
		return start
	}
	if allocated := allocation.AllocationTimestamp; from == StartMaxOfTaintAndAllocation &&
		allocated != nil && allocated.After(start) {
		start = allocated.Time
	}
	return later(start, *seconds)
}

// settled is the verdict with its reasons sorted, none twice, and its time set to the
// earliest of them. The same device can be in a claim twice, by two requests.
func (v Verdict) settled() Verdict {
	if len(v.Reasons) == 0 {
		return Verdict{}
	}
	slices.SortFunc(v.Reasons, func(a, b Reason) int {
		if order := a.compare(b); order != 0 {
			return order
		}
		return a.At.Compare(b.At)
	})
	v.Reasons = slices.CompactFunc(v.Reasons, func(a, b Reason) bool { return a.compare(b) == 0 })
	v.At = earliest(v.Reasons)
	return v
}

// earliest is the time of reasons, of which there is one.
func earliest(reasons []Reason) time.Time {
	return slices.MinFunc(reasons, func(a, b Reason) int { return a.At.Compare(b.At) }).At
}

// Merge is the verdict of several claims together: the earliest time, all reasons.
func Merge(verdicts ...Verdict) Verdict {
	if len(verdicts) == 1 {
		return verdicts[0].settled()
	}
	var merged Verdict
	for _, v := range verdicts {
		merged.Reasons = append(merged.Reasons, v.Reasons...)
	}
	return merged.settled()
}

// tolerance says for how many seconds tolerations tolerate a NoExecute taint: the
// least of those that match, nil if none does; or for ever.
func tolerance(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint, empty EmptyEffect) (seconds *int64, forever bool) {
	for _, t := range tolerations {
		if !toleration.Tolerates(t, taint) {
			continue
		}
		switch {
		case t.Effect == "" && empty == EmptyEffectNoSchedule:
			continue
		case t.Effect == "" || t.TolerationSeconds == nil:
			return nil, true
		}
		if s := max(*t.TolerationSeconds, 0); seconds == nil || s < *seconds {
			seconds = ptr.To(s)
		}
	}
	return seconds, false
}

// endOfTime is the last second that RFC 3339, and so the API, can write.
var endOfTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// later is start and seconds more, at most endOfTime. A time.Duration would overflow
// after 292 years.
func later(start time.Time, seconds int64) time.Time {
	if seconds >= endOfTime.Unix()-start.Unix() {
		return endOfTime
	}
	return time.Unix(start.Unix()+seconds, int64(start.Nanosecond())).In(start.Location())
}

// A Verdict says when and why. Its zero value evicts nobody.
type Verdict struct {
	// At is the earliest time of all reasons. It can lie in the past.
	At time.Time
	// Reasons are all that speak for an eviction, now or later: those of
	// DeviceTaintRules by name of the rule, then those of drivers by driver, pool,
	// device and place of the taint.
	Reasons []Reason
}

// A Reason is one taint of one device of one claim that is not tolerated for ever.
type Reason struct {
	// Taint is never nil. Reasons may share it; it is not changed.
	Taint    *Taint
	Device   DeviceID
	Claim    types.NamespacedName
	ClaimUID types.UID
	// ExtendedResource says that the pod reaches the claim through
	// status.extendedResourceClaimStatus. Only [DecidePod] sets it.
	ExtendedResource bool
	// At is when the taint is no longer tolerated.
	At time.Time
	// TolerationSeconds is how long the claim tolerates the taint, nil if not at all.
	TolerationSeconds *int64
}

// Evict says whether there is anything to evict for.
func (v Verdict) Evict() bool { return len(v.Reasons) > 0 }

// Only is the verdict on the reasons that keep returns true for, with the time of
// those.
func (v Verdict) Only(keep func(Reason) bool) Verdict {
	var kept Verdict
	for _, reason := range v.Reasons {
		if keep(reason) {
			kept.Reasons = append(kept.Reasons, reason)
		}
	}
	return kept.settled()
}

// Rules are the DeviceTaintRules among the reasons, each once, by name.
func (v Verdict) Rules() []Rule {
	var rules []Rule
	for _, reason := range v.Reasons {
		if n := len(rules); reason.Taint.FromRule() && (n == 0 || rules[n-1] != reason.Taint.Rule) {
			rules = append(rules, reason.Taint.Rule)
		}
	}
	return rules
}

// Equal says whether two verdicts say the same: same time, same reasons.
func (v Verdict) Equal(w Verdict) bool {
	if !v.At.Equal(w.At) || len(v.Reasons) != len(w.Reasons) {
		return false
	}
	for i := range v.Reasons {
		if v.Reasons[i].compare(w.Reasons[i]) != 0 || !v.Reasons[i].At.Equal(w.Reasons[i].At) {
			return false
		}
	}
	return true
}

func (r Reason) compare(s Reason) int {
	if r.Taint.FromRule() != s.Taint.FromRule() {
		if r.Taint.FromRule() {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(r.Taint.Rule.Name, s.Taint.Rule.Name),
		cmp.Compare(r.Taint.Rule.UID, s.Taint.Rule.UID),
		r.Device.Compare(s.Device),
		cmp.Compare(r.Taint.Index, s.Taint.Index),
		cmp.Compare(r.Claim.Namespace, s.Claim.Namespace),
		cmp.Compare(r.Claim.Name, s.Claim.Name),
		cmp.Compare(r.ClaimUID, s.ClaimUID),
	)
}

// Explain says in words what the verdict says, one line for the time and one for each
// reason, seen at now.
func (v Verdict) Explain(now time.Time) string {
	if !v.Evict() {
		return "not evicted: no NoExecute taint of its devices is untolerated"
	}
	var text strings.Builder
	if wait := v.At.Sub(now); wait > 0 {
		fmt.Fprintf(&text, "evicted at %s, in %s", v.At.UTC().Format(time.RFC3339), wait.Round(time.Second))
	} else {
		fmt.Fprintf(&text, "evicted now, due since %s", v.At.UTC().Format(time.RFC3339))
	}
	for _, reason := range v.Reasons {
		fmt.Fprintf(&text, "\n- %s", reason)
	}
	return text.String()
}

// String says the reason in words.
func (r Reason) String() string {
	text := fmt.Sprintf("device %s has taint %s, and claim %s ", r.Device, r.Taint, r.Claim)
	if r.ExtendedResource {
		text += "(for extended resources) "
	}
	at := r.At.UTC().Format(time.RFC3339)
	switch {
	case r.TolerationSeconds == nil:
		return text + "does not tolerate it: due " + at
	case r.At.Equal(endOfTime):
		return text + "tolerates it for longer than times can be written"
	default:
		return text + fmt.Sprintf("tolerates it for %ds: due %s", max(*r.TolerationSeconds, 0), at)
	}
}

// DeviceID names a device. A name counts only within its pool, a pool within its
// driver.
type DeviceID = usage.DeviceID

// A Taint is one effective taint of a device, and where it comes from.
type Taint struct {
	resourceapi.DeviceTaint
	// Rule is the DeviceTaintRule that sets the taint. Its zero value says that the
	// driver publishes it.
	Rule Rule
	// Index is the place of the taint among those that the driver publishes for the
	// device.
	Index int
	// Since is used where DeviceTaint.TimeAdded is nil, which an API server without
	// defaulting of taints leaves behind: when the rule was created, or when the taint
	// was first seen.
	Since time.Time
}

// A Rule identifies one life of a DeviceTaintRule: who deletes and recreates one under
// the same name has another.
type Rule struct {
	Name string
	UID  types.UID
}

// FromRule says whether a DeviceTaintRule sets the taint, not the driver.
func (t Taint) FromRule() bool { return t.Rule != Rule{} }

// equal says whether two taints are alike in everything.
func (t *Taint) equal(u *Taint) bool {
	return t.Key == u.Key && t.Value == u.Value && t.Effect == u.Effect && t.TimeAdded.Equal(u.TimeAdded) &&
		t.Rule == u.Rule && t.Index == u.Index && t.Since.Equal(u.Since)
}

// String names the taint as kubectl does for those of nodes, and its origin.
func (t Taint) String() string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	text += ":" + string(t.Effect)
	if t.FromRule() {
		return fmt.Sprintf("%s of DeviceTaintRule %s", text, t.Rule.Name)
	}
	return text + " of the driver"
}

// Taints looks up the effective taints of a device: those that its driver publishes in
// the newest complete generation of the pool, then those of the DeviceTaintRules that
// select the device by name, whether it is published or not. An empty result is a
// healthy or unknown device. Taints with other effects than NoExecute may be among
// them and do not count.
type Taints interface {
	Taints(DeviceID) []Taint
}

// TaintsFunc is a function as [Taints].
type TaintsFunc func(DeviceID) []Taint

// Taints calls the function.
func (f TaintsFunc) Taints(device DeviceID) []Taint { return f(device) }

// A plan is the part of a verdict that is for us to carry out.
type plan struct {
	Verdict
	// held are the reasons that would be ours and wait for a confirmation.
	held Verdict
	// shares are what it was made by.
	shares Shares
}

func (p plan) equal(q plan) bool {
	return p.shares == q.shares && p.Equal(q.Verdict) && p.held.Equal(q.held)
}

// whole says whether all reasons of a verdict are for us, which are then one list for both.
func (p plan) whole(v Verdict) bool {
	return len(p.Reasons) == len(v.Reasons) && (len(v.Reasons) == 0 || &p.Reasons[0] == &v.Reasons[0])
}

// outlook is what a plan is made by, beside the verdict.
type outlook struct {
	shares Shares
	// since is when the controller was first started: older taints wait for a
	// confirmation, so that installing evicts nobody.
	since time.Time
	// confirmed says whether somebody has confirmed a rule.
	confirmed func(Rule) bool
}

func (o outlook) plan(pod *corev1.Pod, verdict Verdict) plan {
	p := plan{shares: o.shares}
	taken := disrupted(pod)
	for _, r := range verdict.Reasons {
		switch share := o.shares.of(r); {
		case share == ShareNone || share == ShareMissed && taken:
		case r.began().Before(o.since) && !(r.Taint.FromRule() && o.confirmed != nil && o.confirmed(r.Taint.Rule)):
			p.held.Reasons = append(p.held.Reasons, r)
		default:
			p.Reasons = append(p.Reasons, r)
		}
	}
	if p.held = p.held.settled(); len(p.Reasons) == len(verdict.Reasons) {
		p.Verdict = verdict // one list for both
	} else {
		p.Verdict = p.settled()
	}
	return p
}

// begin is when to carry the plan out if it has been known since a time: where it is for
// what others miss, these have time to act first.
func (p plan) begin(since time.Time) time.Time {
	var first time.Time
	for _, r := range p.Reasons {
		at := r.At
		if since.After(at) {
			at = since
		}
		if p.shares.of(r) == ShareMissed {
			at = at.Add(SupplementGrace)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// began is when the taint was added, as far as that is known.
func (r Reason) began() time.Time {
	if !r.Taint.TimeAdded.IsZero() {
		return r.Taint.TimeAdded.Time
	}
	if !r.Taint.Since.IsZero() {
		return r.Taint.Since
	}
	return r.At
}

// inTreeReason is the reason of the condition DisruptionTarget that the controller in
// kube-controller-manager gives (PodReasonDeletionByDeviceTaintManager in its source).
const inTreeReason = "DeletionByDeviceTaintManager"

// disrupted says whether somebody else is about to end the pod.
func disrupted(pod *corev1.Pod) bool {
	c := disruption(pod)
	return pod.DeletionTimestamp != nil || c != nil && c.Reason != DisruptionReason
}

// disruption is the condition that says that somebody is about to end the pod, nil if
// nobody is.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
