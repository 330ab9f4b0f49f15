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

	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Claims looks up a claim by namespace and name, or nil.
type Claims interface {
	Claim(namespace, name string) *resourceapi.ResourceClaim
}

// exemption is the reason why no taint evicts a pod; empty for a pod that taints evict.
type exemption string

const (
	// exemptUnscheduled: the pod has no node yet. It uses no device, and the scheduler
	// takes taints into account.
	exemptUnscheduled exemption = "not scheduled"
	// exemptFinished: the pod has succeeded or failed. It has no containers, but a claim
	// can still be reserved for it.
	exemptFinished exemption = "finished"
	// exemptTerminating: the pod is being deleted.
	exemptTerminating exemption = "already being deleted"
)

// exemptionOf returns the reason why no taint evicts the pod, if there is one.
func exemptionOf(pod *corev1.Pod) exemption {
	switch {
	case pod.DeletionTimestamp != nil:
		return exemptTerminating
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return exemptFinished
	case pod.Spec.NodeName == "":
		return exemptUnscheduled
	}
	return ""
}

// DecidePod returns when and why the pod is evicted: the earliest time of its claims, with
// the reasons of all. The verdict is empty for a pod that is
// finished, not scheduled or already being deleted.
func DecidePod(pod *corev1.Pod, claims Claims, taints Taints, settings Semantics, now time.Time) Verdict {
	if exemptionOf(pod) != "" {
		return Verdict{}
	}
	var verdicts []Verdict
	for used := range usage.Uses(pod, claims.Claim, !settings.IgnorePodGroups) {
		v := Decide(used.Claim, taints, settings, now)
		for i := range v.Reasons {
			v.Reasons[i].ExtendedResource = used.ExtendedResource
		}
		verdicts = append(verdicts, v)
	}
	return Merge(verdicts...)
}

// Decide returns when and why the pods that use a claim are evicted. The tolerations are
// those in the allocation, to which the scheduler copied them, not those of the spec. A
// claim that is not allocated evicts no pod. now is the start of taints without a time.
func Decide(claim *resourceapi.ResourceClaim, taints Taints, settings Semantics, now time.Time) Verdict {
	if claim.Status.Allocation == nil {
		return Verdict{}
	}
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	evaluator := toleration.Evaluator{EmptyEffect: settings.EmptyEffect}
	var verdict Verdict
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		device := DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		for _, taint := range taints.Taints(device) {
			if taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
				continue
			}
			tolerated := evaluator.Evaluate(result.Tolerations, taint.DeviceTaint)
			if tolerated.Forever() {
				continue
			}
			its := taint // allocates, so only for taints that count
			verdict.Reasons = append(verdict.Reasons, Reason{
				Taint: &its, Device: device, Claim: name, ClaimUID: claim.UID,
				TolerationSeconds: tolerated.Seconds,
				At:                due(taint, tolerated.Seconds, claim.Status.Allocation, settings.TolerationStart, now),
			})
		}
	}
	return verdict.normalized()
}

// due returns when the toleration of a taint ends.
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

// normalized sorts the reasons, removes duplicates, and sets the time to the earliest. A
// device can be in a claim twice, for two requests.
func (v Verdict) normalized() Verdict {
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

// earliest returns the earliest time of reasons, which are not empty.
func earliest(reasons []Reason) time.Time {
	return slices.MinFunc(reasons, func(a, b Reason) int { return a.At.Compare(b.At) }).At
}

// Merge combines the verdicts of several claims: the earliest time, all reasons.
func Merge(verdicts ...Verdict) Verdict {
	if len(verdicts) == 1 {
		return verdicts[0].normalized()
	}
	var merged Verdict
	for _, v := range verdicts {
		merged.Reasons = append(merged.Reasons, v.Reasons...)
	}
	return merged.normalized()
}

// endOfTime is the last second that RFC 3339, and so the API, can represent.
var endOfTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// later adds seconds to start, up to endOfTime. A time.Duration overflows after 292 years.
func later(start time.Time, seconds int64) time.Time {
	if seconds >= endOfTime.Unix()-start.Unix() {
		return endOfTime
	}
	return time.Unix(start.Unix()+seconds, int64(start.Nanosecond())).In(start.Location())
}

// A Verdict is when and why pods are evicted. The zero value evicts no pod.
type Verdict struct {
	// At is the earliest time of all reasons. It can be in the past.
	At time.Time
	// Reasons are all reasons for an eviction, now or later: those of DeviceTaintRules
	// by the name of the rule, then those of drivers by driver, pool, device and index of
	// the taint.
	Reasons []Reason
}

// A Reason is one taint of one device of one claim that is not tolerated without limit.
type Reason struct {
	// Taint is never nil. Reasons share it; it is read-only.
	Taint    *Taint
	Device   DeviceID
	Claim    types.NamespacedName
	ClaimUID types.UID
	// ExtendedResource is true for the claim in status.extendedResourceClaimStatus of the
	// pod. Only [DecidePod] sets it.
	ExtendedResource bool
	// At is when the taint is no longer tolerated.
	At time.Time
	// TolerationSeconds is how long the claim tolerates the taint, nil if not at all.
	TolerationSeconds *int64
}

// Evict reports whether there is a reason.
func (v Verdict) Evict() bool { return len(v.Reasons) > 0 }

// Only returns the verdict for the reasons that keep returns true for.
func (v Verdict) Only(keep func(Reason) bool) Verdict {
	var kept Verdict
	for _, reason := range v.Reasons {
		if keep(reason) {
			kept.Reasons = append(kept.Reasons, reason)
		}
	}
	return kept.normalized()
}

// onlyExtended reports whether all reasons are claims for extended resources.
func (v Verdict) onlyExtended() bool {
	return v.Evict() && !slices.ContainsFunc(v.Reasons, func(r Reason) bool { return !r.ExtendedResource })
}

// within returns the verdict for the reasons that are due by a time.
func (v Verdict) within(until int64) Verdict {
	if !slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.At.Unix() > until }) {
		return v
	}
	return v.Only(func(r Reason) bool { return r.At.Unix() <= until })
}

// dueAfter reports whether the verdict has a reason of a cause, or of any if that is nil,
// that is due after a time and by another.
func (v Verdict) dueAfter(of *cause, from, until int64) bool {
	return slices.ContainsFunc(v.Reasons, func(r Reason) bool {
		at := r.At.Unix()
		return (of == nil || causeOf(r) == *of) && at > from && at <= until
	})
}

// ends returns the verdict without the reasons that are tolerated until after the year 9999,
// for which a pod is never evicted.
func (v Verdict) ends() Verdict {
	if !slices.ContainsFunc(v.Reasons, Reason.never) {
		return v
	}
	return v.Only(func(r Reason) bool { return !r.never() })
}

func (r Reason) never() bool { return r.At.Equal(endOfTime) }

// rules returns the DeviceTaintRules among the reasons, each once, by name.
func (v Verdict) rules() []Rule {
	var rules []Rule
	for _, reason := range v.Reasons {
		if n := len(rules); reason.Taint.FromRule() && (n == 0 || rules[n-1] != reason.Taint.Rule) {
			rules = append(rules, reason.Taint.Rule)
		}
	}
	return rules
}

// equal reports whether two verdicts have the same time, the same reasons and the same taints.
func (v Verdict) equal(w Verdict) bool {
	if !v.At.Equal(w.At) || len(v.Reasons) != len(w.Reasons) {
		return false
	}
	for i := range v.Reasons {
		if r, s := v.Reasons[i], w.Reasons[i]; r.compare(s) != 0 || !r.At.Equal(s.At) || r.Taint.Key != s.Taint.Key || r.Taint.Value != s.Taint.Value {
			return false
		}
	}
	return true
}

// has reports whether a verdict has a reason, with the same time.
func (v Verdict) has(r Reason) bool {
	return slices.ContainsFunc(v.Reasons, func(s Reason) bool { return r.compare(s) == 0 && r.At.Equal(s.At) })
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

// Explain describes the verdict at a time, in one line for the time and one per reason.
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

// String describes the reason.
func (r Reason) String() string {
	text := fmt.Sprintf("device %s has taint %s, and claim %s ", r.Device, r.Taint, r.Claim)
	if r.ExtendedResource {
		text += "(for extended resources) "
	}
	at := r.At.UTC().Format(time.RFC3339)
	switch {
	case r.TolerationSeconds == nil:
		return text + "does not tolerate it: due " + at
	case r.never():
		return text + "tolerates it until after the year 9999"
	default:
		return text + fmt.Sprintf("tolerates it for %ds: due %s", max(*r.TolerationSeconds, 0), at)
	}
}

// DeviceID names a device, which is unique within its pool, as a pool is within its driver.
type DeviceID = usage.DeviceID

// A Taint is one effective taint of a device, with its provenance.
type Taint struct {
	resourceapi.DeviceTaint
	// Rule is the DeviceTaintRule that sets the taint, zero for a taint that the driver
	// publishes.
	Rule Rule
	// Index is that of the taint among those that the driver publishes for the device.
	Index int
	// Since replaces a nil DeviceTaint.TimeAdded, which an API server without defaulting of
	// taints leaves: when the rule was created, or the taint was first seen.
	Since time.Time
}

// A Rule identifies a DeviceTaintRule. A rule that is deleted and recreated under the same
// name is another one.
type Rule struct {
	Name string
	UID  types.UID
}

// FromRule reports whether a DeviceTaintRule sets the taint.
func (t Taint) FromRule() bool { return t.Rule != Rule{} }

// equal reports whether two taints are equal in all fields.
func (t *Taint) equal(u *Taint) bool {
	return t.Key == u.Key && t.Value == u.Value && t.Effect == u.Effect && t.TimeAdded.Equal(u.TimeAdded) &&
		t.Rule == u.Rule && t.Index == u.Index && t.Since.Equal(u.Since)
}

// String returns the taint in the notation of kubectl for nodes, and its origin.
func (t Taint) String() string {
	text := toleration.TaintText(t.DeviceTaint)
	if t.FromRule() {
		return fmt.Sprintf("%s of DeviceTaintRule %s", text, t.Rule.Name)
	}
	return text + " of the driver"
}

// Taints looks up the effective taints of a device: those that its driver publishes in
// the newest generation of the pool, then those of the DeviceTaintRules that select the
// device by name, published or not. The result is empty for a healthy or unknown device.
// It can include taints with other effects than NoExecute, which are ignored.
type Taints interface {
	Taints(DeviceID) []Taint
}

// TaintsFunc implements [Taints].
type TaintsFunc func(DeviceID) []Taint

// Taints calls the function.
func (f TaintsFunc) Taints(device DeviceID) []Taint { return f(device) }

// A plan is the part of a verdict that this controller carries out.
type plan struct {
	Verdict
	// held are the reasons that wait for a confirmation.
	held Verdict
	// shares are those that the plan was made with.
	shares shares
}

func (p plan) equal(q plan) bool {
	return p.shares == q.shares && p.Verdict.equal(q.Verdict) && p.held.equal(q.held)
}

// whole reports whether the plan shares the list of reasons with the verdict.
func (p plan) whole(v Verdict) bool {
	return len(p.Reasons) == len(v.Reasons) && (len(v.Reasons) == 0 || &p.Reasons[0] == &v.Reasons[0])
}

// scope selects the part of a verdict that this controller carries out.
type scope struct {
	shares shares
	// since is when the controller was first started. Older taints wait for a
	// confirmation, so that an installation evicts no pods.
	since time.Time
	// confirmed reports whether the author has confirmed a rule.
	confirmed func(Rule) bool
	// rulesInTree is true while the in-tree controller evicts all pods for rules.
	rulesInTree bool
}

func (o scope) plan(pod *corev1.Pod, verdict Verdict) plan {
	p := plan{shares: o.shares}
	taken := disrupted(pod)
	for _, r := range verdict.Reasons {
		switch share := o.shares.of(r); {
		case share == shareNone || share == shareMissed && taken:
		case r.began().Before(o.since) && !(r.Taint.FromRule() && o.confirmed != nil && o.confirmed(r.Taint.Rule)):
			p.held.Reasons = append(p.held.Reasons, r)
		default:
			p.Reasons = append(p.Reasons, r)
		}
	}
	if p.held = p.held.normalized(); len(p.Reasons) == len(verdict.Reasons) {
		p.Verdict = verdict // shares the list
	} else {
		p.Verdict = p.normalized()
	}
	return p
}

// begin returns when to carry out a plan that is known since a time. Evictions that the
// in-tree controller may miss start later, so that it can act first.
func (p plan) begin(since time.Time) time.Time {
	var first time.Time
	for _, r := range p.Reasons {
		at := r.At
		if since.After(at) {
			at = since
		}
		if p.shares.of(r) == shareMissed {
			at = at.Add(supplementGrace)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// began returns when the taint was added, as far as known.
func (r Reason) began() time.Time {
	if !r.Taint.TimeAdded.IsZero() {
		return r.Taint.TimeAdded.Time
	}
	if !r.Taint.Since.IsZero() {
		return r.Taint.Since
	}
	return r.At
}

// inTreeReason is the reason of the condition DisruptionTarget that the in-tree controller
// sets (PodReasonDeletionByDeviceTaintManager in its source).
const inTreeReason = "DeletionByDeviceTaintManager"

// disrupted reports whether another controller is about to terminate the pod.
func disrupted(pod *corev1.Pod) bool {
	c := disruption(pod)
	return pod.DeletionTimestamp != nil || c != nil && c.Reason != disruptionReason
}

// disruption returns the condition DisruptionTarget if it is true, otherwise nil.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// shares returns those of a fixed mode, and the initial ones of auto.
func (m Mode) shares() shares {
	switch m {
	case ModeSupplement:
		return shares{Slices: presentShare, Rules: presentShare}
	case ModeFull:
		return shares{Slices: absentShare, Rules: absentShare}
	}
	return shares{}
}

// A share is the part of the evictions that this controller carries out.
type share uint8

// String returns the name in metrics and logs.
func (s share) String() string { return [...]string{"none", "missed", "all"}[s] }

// classShares has the shares of two classes of pods.
type classShares struct {
	// Ordinary pods name claims. Extended ones have devices for extended resources, which
	// the in-tree controller of Kubernetes 1.37 misses.
	Ordinary, Extended share
}

// shares has the shares for each source of taints.
type shares struct{ Slices, Rules classShares }

// of returns the share of evictions for a reason.
func (s shares) of(r Reason) share {
	classes := s.Slices
	if r.Taint.FromRule() {
		classes = s.Rules
	}
	if r.ExtendedResource {
		return classes.Extended
	}
	return classes.Ordinary
}

// ours returns the reasons with a share other than none, or all if all shares are none.
func (s shares) ours(v Verdict) Verdict {
	if s == (shares{}) {
		return v
	}
	return v.Only(func(r Reason) bool { return s.of(r) != shareNone })
}

// condition returns the type of the condition that the controller writes to rules, empty
// for none.
func (s shares) condition() string {
	switch {
	case s.Rules.Ordinary == shareAll:
		return resourceapi.DeviceTaintConditionEvictionInProgress
	case s.Rules != classShares{}:
		return ownCondition
	}
	return ""
}

const (
	// shareNone is the zero value: no share.
	shareNone share = iota
	// shareMissed are those that have not begun [supplementGrace] after they are due.
	shareMissed
	// shareAll are all of them.
	shareAll
)

// presentShare and absentShare apply where the in-tree controller is present, and absent.
var (
	presentShare = classShares{Ordinary: shareNone, Extended: shareMissed}
	absentShare  = classShares{Ordinary: shareAll, Extended: shareAll}
)
