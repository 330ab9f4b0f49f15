package drain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// Decide returns the next step. Called again after that step with nothing else changed, it
// returns the same step or none.
func Decide(in Input) Decision {
	d := Decision{Status: *in.Drain.Status.DeepCopy()}
	d.Status.ObservedGeneration = in.Drain.Generation
	d.countPending(in)
	c := conditions{&d.Status, in.Now}
	c.knownFault(in.Version)
	groups := in.chosen()
	if in.Devices.Names == nil {
		d.unresolved(in, c)
		return d
	}
	if !in.Drain.Spec.DryRun {
		d.Status.Devices = groups
	}
	from, evict := d.cordonCondition(in, groups)
	if d.Status.CompletionTime != nil {
		d.reconcileRequests(in)
		return d
	}
	at, action := deadline(in.Drain)
	passed := !at.IsZero() && !in.Now.Before(at)
	if !at.IsZero() && !passed {
		d.WakeAt(at)
	}
	closed := d.closed(in)
	force := passed && action == v1alpha1.DeadlineDelete && !in.Drain.Spec.Paused && closed == closure{}
	kept := passed && action == v1alpha1.DeadlineKeep
	d.follow(in, c, force || kept || closed != closure{} || in.Drain.Spec.Paused || in.Drain.Spec.DryRun || in.Drain.Spec.Via != v1alpha1.ViaEvictionRequest)
	s := d.classify(in, from, force)
	d.counts(in, s)
	for _, pod := range s.waiting {
		d.Order = append(d.Order, pod.Pod)
	}
	blocks := s.blocks()
	d.Status.Blocked = listed(blocks)
	d.blockedCondition(in, c, blocks, d.begun(from))
	switch {
	case d.drained(in, c, evict):
	case passed && action == v1alpha1.DeadlineFail && !in.Drain.Spec.DryRun:
		d.fail(in, c, at)
	case d.draining(in, c, s, pauses{cordoning: !evict, kept: kept, deadline: at, closed: closed}):
		d.choose(in, s, from, force)
	case c.is(v1alpha1.DrainDraining).Reason != cordoning:
		d.stopRequests(in)
	}
	c.podsLand(in.Stranded)
	d.reconcileRequests(in)
	return d
}

// chosen groups the devices of a drain, unless it begins with too many.
func (in *Input) chosen() []v1alpha1.DrainDevices {
	if in.Devices.Names == nil {
		return nil
	}
	groups := in.groups()
	if why := tooMany(groups); why != "" && len(in.Drain.Status.Devices) == 0 {
		in.Devices = Devices{Reason: v1alpha1.BlockedTooManyDevices, Message: why}
	}
	return groups
}

// unresolved waits for devices.
func (d *Decision) unresolved(in Input, c conditions) {
	if d.Status.CompletionTime != nil {
		return
	}
	c.set(v1alpha1.DrainCordoned, false, in.Devices.Reason, "nothing is cordoned")
	c.set(v1alpha1.DrainDraining, false, in.Devices.Reason, "nothing is drained")
	c.set(v1alpha1.DrainBlocked, true, in.Devices.Reason, in.Devices.Message)
	c.set(v1alpha1.DrainDrained, false, in.Devices.Reason, "the devices are unknown")
}

// maxSiblings is how many devices status.siblings has.
const maxSiblings = 64

func (d *Decision) counts(in Input, s survey) {
	n := &d.Status.Counts
	n.Devices, n.Unpublished, n.Siblings = int32(len(in.Devices.Names)), int32(in.Unpublished), int32(len(in.Siblings))
	d.Status.Siblings = in.Siblings[:min(len(in.Siblings), maxSiblings)]
	n.Claims, n.Remaining, n.Namespaces = int32(len(in.Holders)), int32(len(s.pods)), int32(len(s.namespaces))
	n.Leaving, n.Blocked = int32(len(s.leaving)), int32(len(s.blocked))
	n.Waiting = n.Remaining - n.Leaving - n.Blocked
}

// excess is what the drain hits beyond what may be.
func (d *Decision) excess(in Input) string {
	acknowledged, err := guard.Acknowledged(in.Drain.Annotations)
	if err != nil {
		return fmt.Sprintf("annotation %s: %v", v1alpha1.AcknowledgementAnnotation, err)
	}
	n := d.Status.Counts
	counts := guard.Counts{Devices: in.HeldDevices, DriverDevices: in.DriverDevices, Claims: int(n.Claims), Pods: int(n.Remaining), Namespaces: int(n.Namespaces)}
	over := in.Thresholds.Exceeded(counts, acknowledged)
	if len(over) == 0 {
		return ""
	}
	var texts []string
	for _, one := range over {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, ", ") + "; if this is intended, annotate the drain with " + guard.CeilingOf(counts).Annotate()
}

// begun reports whether pods were evicted since the cordon took effect. From then on who comes to
// the devices comes in spite of the cordon, or uses a claim that others have to leave, and the
// thresholds would let one tenant stop the drain for all.
func (d *Decision) begun(from time.Time) bool {
	last := d.Status.LastEvictionTime
	return last != nil && !from.IsZero() && !last.Time.Before(from)
}

// blockedCondition is what blocks the drain; blocks are all, of which status.blocked has the
// first. The thresholds do not stop a drain that has begun.
func (d *Decision) blockedCondition(in Input, c conditions, blocks []v1alpha1.DrainBlock, begun bool) {
	cordoned := c.is(v1alpha1.DrainCordoned)
	switch {
	case cordoned.Reason == v1alpha1.BlockedCannotCordon && !in.Drain.Spec.WithoutCordon:
		c.set(v1alpha1.DrainBlocked, true, v1alpha1.BlockedCannotCordon, cordoned.Message+"; to evict without a cordon, set withoutCordon")
		return
	case len(in.Holders) > 0 && !begun:
		if excess := d.excess(in); excess != "" {
			c.set(v1alpha1.DrainBlocked, true, v1alpha1.BlockedThreshold, excess)
			return
		}
	}
	if len(blocks) == 0 {
		c.set(v1alpha1.DrainBlocked, false, "NotBlocked", "")
		return
	}
	var texts []string
	for _, block := range blocks[:min(len(blocks), maxNames)] {
		texts = append(texts, Explain(block))
	}
	if more := len(blocks) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more: see status.blocked", more))
	}
	c.set(v1alpha1.DrainBlocked, true, blocks[0].Reason, strings.Join(texts, "; "))
}

// is returns a condition that was set before.
func (c conditions) is(kind string) (condition metav1.Condition) {
	for _, condition := range c.status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return condition
}

// drained reports whether nothing is left to evict: the devices are free, and cannot be
// allocated again but to pods that tolerate the cordon.
func (d *Decision) drained(in Input, c conditions, cordoned bool) bool {
	n := d.Status.Counts
	switch {
	case in.Drain.Spec.DryRun:
		c.set(v1alpha1.DrainDrained, false, "DryRun", "nothing is evicted")
	case n.Remaining > 0:
		c.set(v1alpha1.DrainDrained, false, "PodsRemain", fmt.Sprintf("%s in %s left, %d of them leaving", plural.Of(int(n.Remaining), "pod"), plural.Of(int(n.Namespaces), "namespace"), n.Leaving))
	case n.Claims > 0:
		c.set(v1alpha1.DrainDrained, false, "ClaimsRemain", fmt.Sprintf("%s allocated: first %s", areClaims(int(n.Claims)), firstClaim(in)))
	case !cordoned:
		c.set(v1alpha1.DrainDrained, false, "NotCordoned", "no claim holds a device, but a new claim can get one at any time")
	case d.mayReturn(in, c):
		c.begin(v1alpha1.DrainDraining, returning)
		c.set(v1alpha1.DrainDrained, false, returning, fmt.Sprintf("no claim holds one of %s; pods that tolerate the cordon may still return", plural.Of(int(n.Devices), "device")))
		c.set(v1alpha1.DrainDraining, false, returning, d.result())
		return true
	default:
		c.set(v1alpha1.DrainDrained, true, "Drained", fmt.Sprintf("no claim holds one of %s; %s", plural.Of(int(n.Devices), "device"), d.result()))
		c.set(v1alpha1.DrainDraining, false, "Drained", "")
		d.complete(in)
		return true
	}
	return false
}

// returnTime is how long the devices stay free before they count as drained. The replacement
// of an evicted pod that tolerates the cordon gets a device within moments.
const returnTime = 5 * time.Second

// returning is the reason of a drain that waits for that time. The condition Draining has the time.
const returning = "WaitingForReturns"

// mayReturn reports whether replacements of evicted pods may not have come yet.
func (d *Decision) mayReturn(in Input, c conditions) bool {
	if d.Status.Counts.Evicted+d.Status.Counts.Deleted == 0 {
		return false
	}
	free := in.Now
	if draining := c.is(v1alpha1.DrainDraining); draining.Reason == returning {
		free = draining.LastTransitionTime.Add(time.Second) // it has no fraction of a second
	}
	until := free.Add(returnTime)
	if !until.After(in.Now) {
		return false
	}
	d.WakeAt(until)
	return true
}

func areClaims(n int) string {
	if n == 1 {
		return "1 claim is"
	}
	return fmt.Sprintf("%d claims are", n)
}

func firstClaim(in Input) string {
	return in.Holders[0].Claim.Namespace + "/" + in.Holders[0].Claim.Name
}

// result reports the number of evicted pods.
func (d *Decision) result() string {
	text := fmt.Sprintf("%s evicted", plural.Of(int(d.Status.Counts.Evicted), "pod"))
	if n := d.Status.Counts.Deleted; n > 0 {
		text += fmt.Sprintf(", %d deleted at the deadline", n)
	}
	return text
}

// complete ends the drain. The rules are looked at once more: they may be lifted.
func (d *Decision) complete(in Input) {
	d.Status.CompletionTime = &metav1.Time{Time: in.Now.Truncate(time.Second)}
	d.Status.Attempts, d.attempts, d.Status.Requested = nil, nil, nil
	if in.Drain.Spec.AtEnd == v1alpha1.EndUncordon {
		d.WakeAt(in.Now)
	}
}

// fail gives up.
func (d *Decision) fail(in Input, c conditions, at time.Time) {
	message := deadlineText(at) + "; " + d.result()
	c.set(v1alpha1.DrainFailed, true, "DeadlineExceeded", message)
	c.set(v1alpha1.DrainDraining, false, "DeadlineExceeded", message)
	d.complete(in)
}

// cordoning is the reason of a drain that waits for its rules to take effect.
const cordoning = "Cordoning"

// pauses are reasons why no pods are evicted now.
type pauses struct {
	// cordoning is true while the cordon takes effect, kept after a deadline that stops evictions.
	cordoning, kept bool
	deadline        time.Time
	closed          closure
}

// draining reports whether pods are evicted, and why not.
func (d *Decision) draining(in Input, c conditions, s survey, p pauses) bool {
	stop := func(reason, message string) bool {
		c.set(v1alpha1.DrainDraining, false, reason, message)
		return false
	}
	blocked := c.is(v1alpha1.DrainBlocked)
	switch {
	case in.Drain.Spec.DryRun:
		return stop("DryRun", fmt.Sprintf("without dryRun, it cordons %s and evicts %s in %s; %d blocked", plural.Of(len(in.Devices.Names), "device"),
			plural.Of(len(s.pods)-len(s.leaving), "pod"), plural.Of(len(s.namespaces), "namespace"), len(s.blocked)))
	case in.Drain.Spec.Paused:
		return stop("Paused", "the drain is paused; "+d.result())
	case blocked.Reason == v1alpha1.BlockedThreshold || blocked.Reason == v1alpha1.BlockedCannotCordon:
		return stop(blocked.Reason, "evictions are blocked: see the condition Blocked")
	case p.cordoning:
		return stop(cordoning, "the devices are cordoned first")
	case p.kept:
		return stop("DeadlineExceeded", deadlineText(p.deadline)+", and evictions have stopped; "+d.result())
	case p.closed != closure{}:
		return stop(p.closed.reason, p.closed.message)
	}
	c.set(v1alpha1.DrainDraining, true, "Evicting", d.result())
	return true
}

// conditions sets the conditions of a status.
type conditions struct {
	status *v1alpha1.DeviceDrainStatus
	now    time.Time
}

// set sets a condition; its transition time changes only with its status.
func (c conditions) set(kind string, is bool, reason, message string) metav1.Condition {
	condition.Set(&c.status.Conditions, c.status.ObservedGeneration, c.now, condition.Condition{Type: kind, Is: is, Reason: reason, Message: message})
	return *meta.FindStatusCondition(c.status.Conditions, kind)
}

// begin removes a condition that has another reason: set then counts its time from now, although its
// status is the same.
func (c conditions) begin(kind, reason string) {
	if c.is(kind).Reason != reason {
		meta.RemoveStatusCondition(&c.status.Conditions, kind)
	}
}

// knownFault warns of faults of a version of Kubernetes that the rules of a drain set off.
func (c conditions) knownFault(version string) {
	var texts []string
	for _, fault := range faults.Of(version, faults.RuleExists) {
		texts = append(texts, fault.String())
	}
	switch {
	case version == "": // it is not known now, and may have been
	case texts == nil:
		meta.RemoveStatusCondition(&c.status.Conditions, v1alpha1.DrainKnownFault)
	default:
		c.set(v1alpha1.DrainKnownFault, true, "KnownFault", "the API server is "+version+": "+strings.Join(texts, "; "))
	}
}

// A closure is why no window of a drain is open; its zero value says that one is.
type closure struct{ reason, message string }

// closed reports why pods are left alone at this time, and decides again when that changes.
func (d *Decision) closed(in Input) closure {
	state, err := windows.At(in.Drain.Spec.Windows, in.Now)
	if err != nil {
		return closure{v1alpha1.WindowNotValid, "no pods are evicted: spec." + err.Error()}
	}
	if !state.Until.IsZero() {
		d.WakeAt(state.Until)
	}
	switch {
	case state.Open:
		return closure{}
	case state.Until.IsZero():
		return closure{v1alpha1.OutsideWindow, "no window opens within a week"}
	}
	return closure{v1alpha1.OutsideWindow, "the next window opens at " + state.Until.UTC().Format(time.RFC3339)}
}
