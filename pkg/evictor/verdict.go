package evictor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
