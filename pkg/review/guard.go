package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// guardError is the ID under which it is reported that the guard could not check a write.
const guardError = "guard-error"

// Impacts counts what an object would hit now.
type Impacts interface {
	// Impact counts for a pointer to a DeviceTaintRule or DeviceDrain. An error says why
	// it cannot be counted now.
	Impact(object any) (guard.Impact, error)
}

// guarding is the configuration of the guard.
type guarding struct {
	// mode is deny, warn, audit or off; empty is deny.
	mode v1alpha1.PolicyMode
	// onError is deny or warn; empty is deny.
	onError v1alpha1.PolicyMode
}

// newGuarding follows the ladder where nothing is said about the guard itself.
func newGuarding(c v1alpha1.StewardConfiguration) guarding {
	return guarding{
		mode:    cmp.Or(c.Guard.Mode, v1alpha1.PolicyMode(policyMode(c.Mode, policy.Deny))),
		onError: cmp.Or(c.Guard.OnError, v1alpha1.PolicyMode(policy.Deny)),
	}
}

const (
	// ruleImpact is the policy of the library whose parameters are the thresholds.
	ruleImpact = "DRA-RULE-004"
	// ruleEverything is the policy of the library about empty selectors, which is asked
	// when rules are validated, too.
	ruleEverything = "DRA-RULE-001"
)

// GuardSettings are the settings of the policies that check the impact of a write.
// They are those of the site, but policies.disabled does not switch them off, and the
// thresholds of the guard are parameters. Each error is one of a field.
func GuardSettings(c v1alpha1.StewardConfiguration) (policy.Settings, error) {
	s, err := PolicySettings(c)
	errs := []error{err}
	if c.Guard.Mode != "" {
		s.Own = nil // what is said about the guard itself counts more than the ladder
	}
	s.Disabled, s.Only = false, policy.NeedsImpact
	at := field.NewPath("guard")
	thresholds := map[string]any{}
	for _, t := range []struct {
		name, parameter string
		value           *int
		most            int
	}{
		{"pods", "maxPods", c.Guard.Thresholds.Pods, 0},
		{"namespaces", "maxNamespaces", c.Guard.Thresholds.Namespaces, 0},
		{"percent", "maxPercent", c.Guard.Thresholds.Percent, 100},
	} {
		if t.value == nil {
			continue
		}
		if *t.value < 0 || t.most > 0 && *t.value > t.most {
			errs = append(errs, field.Invalid(at.Child("thresholds", t.name), *t.value, "must be at least 0, a percentage at most 100"))
		}
		thresholds[t.parameter] = *t.value
	}
	if _, both := c.Policies.Parameters[ruleImpact]; both && len(thresholds) > 0 {
		errs = append(errs, field.Forbidden(at.Child("thresholds"), "policies.parameters["+ruleImpact+"] says the same: leave one of them out"))
	}
	if len(thresholds) > 0 {
		s.Parameters[ruleImpact] = thresholds
	}
	if !slices.Contains([]v1alpha1.PolicyMode{"", "deny", "warn", "off"}, c.Guard.Mode) {
		errs = append(errs, field.NotSupported(at.Child("mode"), c.Guard.Mode, []string{"deny", "warn", "off"}))
	}
	if !slices.Contains([]v1alpha1.PolicyMode{"", "deny", "warn"}, c.Guard.OnError) {
		errs = append(errs, field.NotSupported(at.Child("onError"), c.Guard.OnError, []string{"deny", "warn"}))
	}
	return s, errors.Join(errs...)
}

// Thresholds are those that a configuration gives to the guard, and to the controllers.
// What a site's own policies make of them it does not say.
func Thresholds(c v1alpha1.StewardConfiguration) guard.Thresholds {
	t := guard.DefaultThresholds()
	parameters := map[string]any{}
	_ = json.Unmarshal(c.Policies.Parameters[ruleImpact], &parameters) // what is wrong with them the configuration's check says
	for _, one := range []struct {
		parameter string
		value     *int
		into      *int
	}{
		{"maxPods", c.Guard.Thresholds.Pods, &t.Pods},
		{"maxNamespaces", c.Guard.Thresholds.Namespaces, &t.Namespaces},
		{"maxPercent", c.Guard.Thresholds.Percent, &t.Percent},
	} {
		if one.value != nil {
			*one.into = *one.value
		}
		if n, is := parameters[one.parameter].(float64); is {
			*one.into = int(n)
		}
	}
	return t
}

// Guard checks the impact of a write now: one that makes a DeviceTaintRule evict
// what it did not evict before, or a DeviceDrain drain. Of all others it says nothing.
func (r Reviewer) Guard(req Request) (Answer, error) {
	k, err := lookup(req)
	if err != nil {
		return Answer{}, err
	}
	return k.guard(r, req)
}

// guarded marks a kind whose objects hit claims and pods.
func (k kindOf[T]) guarded(widens func(old, object *T) bool) kindOf[T] {
	k.widens = widens
	return k
}

func (k kindOf[T]) guard(r Reviewer, req Request) (Answer, error) {
	obj, err := k.object(r, req)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Name: displayName(obj)}
	if k.widens == nil || r.guarding.mode == "off" || req.Subresource != "" {
		return answer, nil
	}
	old, err := k.decode(r, "stored object", req.Old)
	if err != nil || !k.widens(old, obj) {
		return answer, err
	}
	asked := r.policyRequest(req, answer.Name, obj)
	asked.Old = old
	answer.measure(req.context(), r, asked)
	answer.soften(r.guarding.mode)
	answer.exempt(r, req)
	answer.setAside(false)
	answer.sort()
	return answer, nil
}

// soften lets no finding weigh more than a mode says.
func (a *Answer) soften(mode v1alpha1.PolicyMode) {
	least := validate.Error
	switch policy.Mode(mode) {
	case policy.Warn:
		least = validate.Warning
	case policy.Audit:
		least, a.Effect = validate.Audit, ""
	}
	for i, f := range a.Findings {
		a.Findings[i].Severity = max(f.Severity, least)
	}
}

// measure counts what a write would hit, and asks the policies about that.
func (a *Answer) measure(ctx context.Context, r Reviewer, req policy.Request) {
	var annotations map[string]string
	if meta, is := req.Object.(metav1.Object); is {
		annotations = meta.GetAnnotations()
	}
	acknowledged, err := guard.Acknowledged(annotations)
	if err != nil {
		a.append(validate.AcknowledgementError(annotations, err), validate.Error)
	}
	impact, err := r.count(req.Object)
	if err != nil {
		a.uncounted(r, err)
		return
	}
	impact.Acknowledged = acknowledged
	a.Effect = impact.String()
	req.Impact = &impact
	a.evaluate(ctx, r.GuardPolicies, r.guarding.onError, req, nil)
	a.sayOnce()
}

// sayOnce leaves of the problems with a rule that selects everything the one that its
// validation reports as well: an API server asks both endpoints at the same time and hands
// on the denial that comes first, and its author should read the same each time.
func (a *Answer) sayOnce() {
	everything := func(f Finding) bool { return f.Rule == ruleEverything && f.Severity == validate.Error }
	if slices.ContainsFunc(a.Findings, everything) {
		a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool { return !everything(f) })
	}
}

func (r Reviewer) count(object any) (guard.Impact, error) {
	if r.Impacts == nil || r.GuardPolicies == nil {
		return guard.Impact{}, errors.New("dra-steward runs without --guard")
	}
	return r.Impacts.Impact(object)
}

// uncounted reports that the impact is not known.
func (a *Answer) uncounted(r Reviewer, err error) {
	severity := validate.Error
	if r.guarding.onError == "warn" {
		severity = validate.Warning
	}
	a.Findings = append(a.Findings, Finding{guardError, severity, field.ErrorTypeInternal, "", fmt.Sprintf(
		"cannot count what this would evict: %v; writes that evict nothing more are always admitted", err)})
}
