package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Impacts counts what an object would hit now.
type Impacts interface {
	// Admit counts what a write affects and calls decide with it. If decide admits the
	// write, it counts in the sums of later ones. An error says why it cannot be counted now;
	// decide is not called then.
	Admit(ctx context.Context, write guard.Write, decide func(guard.Impact) (admitted bool)) error
}

// guarding is the configuration of the guard.
type guarding struct {
	window guard.Window
	// mode is deny, warn, audit or off; empty is deny.
	mode v1alpha1.PolicyMode
	// onError is deny or warn; empty is deny.
	onError v1alpha1.PolicyMode
	// onSum is what happens to a write whose sum is too large: the same as if it were too
	// large by itself.
	onSum v1alpha1.PolicyMode
	// limitsStranded is true if there is a threshold for pods that do not land again.
	limitsStranded bool
}

// newGuarding follows the ladder where nothing is said about the guard itself.
func newGuarding(c v1alpha1.StewardConfiguration) guarding {
	return guarding{
		mode:    cmp.Or(c.Guard.Mode, v1alpha1.PolicyMode(policyMode(c.Mode, policy.Deny))),
		onError: cmp.Or(c.Guard.OnError, v1alpha1.PolicyMode(policy.Deny)),
		onSum:   cmp.Or(c.Policies.Modes[ruleImpact], v1alpha1.PolicyMode(policy.Deny)),
		window:  guard.Window{Length: windowOf(c), Thresholds: guard.Configured(c)},

		limitsStranded: limitsStranded(c),
	}
}

func limitsStranded(c v1alpha1.StewardConfiguration) bool {
	var parameters struct{ MaxStranded *int }
	_ = json.Unmarshal(c.Policies.Parameters[ruleImpact], &parameters) // the check of the configuration reports it
	return c.Guard.Thresholds.Stranded != nil || parameters.MaxStranded != nil
}

// windowOf is the window of a configuration; its check reports one that is out of bounds.
func windowOf(c v1alpha1.StewardConfiguration) time.Duration {
	if c.Guard.Window == nil {
		return guard.DefaultWindow
	}
	return c.Guard.Window.Duration
}

const (
	// ruleImpact is the policy of the library whose parameters are the thresholds.
	ruleImpact = guard.ImpactPolicy
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
		{"stranded", "maxStranded", c.Guard.Thresholds.Stranded, 0},
	} {
		if t.value == nil {
			continue
		}
		if *t.value < 0 || t.most > 0 && *t.value > t.most {
			errs = append(errs, field.Invalid(at.Child("thresholds", t.name), *t.value, "must be at least 0, a percentage at most 100"))
		}
		thresholds[t.parameter] = *t.value
	}
	if w := windowOf(c); w < 0 || w > guard.MaxWindow {
		errs = append(errs, field.Invalid(at.Child("window"), w.String(), "must be at least 0s (off) and at most "+guard.MaxWindow.String()))
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

// Guard checks the impact of a write now: one that makes a DeviceTaintRule evict
// what it did not evict before, a DeviceDrain drain, a DeviceReaction act, or a DeviceRoll drain. Of all others it says nothing.
func (r Reviewer) Guard(req Request) (Answer, error) {
	k, err := lookup(req)
	if err != nil {
		return Answer{}, err
	}
	return k.guard(r, req)
}

// guarded marks a kind whose objects hit claims and pods.
func (k kindOf[T]) guarded(widens func(old, object *T, now time.Time) bool) kindOf[T] {
	k.widens = widens
	return k
}

// anyTime is for kinds of which the time of a write does not matter.
func anyTime[T any](widens func(old, object *T) bool) func(old, object *T, now time.Time) bool {
	return func(old, object *T, _ time.Time) bool { return widens(old, object) }
}

func (k kindOf[T]) guard(r Reviewer, req Request) (Answer, error) {
	if k.widens == nil {
		return Answer{}, nil
	}
	obj, err := k.written(r, req)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Name: displayName(obj)}
	if r.guarding.mode == "off" || req.Subresource != "" {
		return answer, nil
	}
	old, err := k.read(r, "stored object", req.Old)
	if err != nil || !k.widens(old, obj, req.Now) {
		return answer, err
	}
	asked := r.policyRequest(req, answer.Name, obj)
	asked.Old = old
	answer.measure(r, req, asked)
	return answer, nil
}

// conclude applies the mode of the guard and the exemptions to what was found.
func (a *Answer) conclude(r Reviewer, req Request) {
	a.soften(r.guarding.mode)
	a.exempt(r, req)
	a.setAside(false, false)
	a.sort()
}

// soften lets no finding weigh more than a mode says.
func (a *Answer) soften(mode v1alpha1.PolicyMode) {
	least := validate.Error
	switch policy.Mode(mode) {
	case policy.Warn:
		least = validate.Warning
	case policy.Audit:
		least, a.Effect, a.EffectRule = validate.Audit, "", ""
	}
	for i, f := range a.Findings {
		a.Findings[i].Severity = max(f.Severity, least)
	}
}

// measure counts what a write would hit, and asks the policies about that.
func (a *Answer) measure(r Reviewer, req Request, asked policy.Request) {
	var annotations map[string]string
	if meta, is := asked.Object.(metav1.Object); is {
		annotations = meta.GetAnnotations()
	}
	acknowledged, err := guard.Acknowledged(annotations)
	if err != nil {
		a.append(guard.AcknowledgementError(annotations, err), validate.Error)
	}
	write := guard.Write{Object: asked.Object, Acknowledged: acknowledged, Window: r.guarding.window, Now: req.Now, DryRun: req.DryRun, Bytes: len(req.Object)}
	if err := r.admit(req.context(), write, func(impact guard.Impact) bool {
		impact.Acknowledged = acknowledged
		if impact.Stranded != nil {
			impact.Stranded.Limited = r.guarding.limitsStranded
		}
		a.Effect, a.EffectRule = impact.String(), ruleid.GuardImpact
		asked.Impact = &impact
		a.evaluate(req.context(), r.GuardPolicies, r.guarding.onError, asked, nil)
		a.addSum(r, impact.Sum)
		a.sayOnce()
		a.conclude(r, req)
		return !a.Denied()
	}); err != nil {
		a.uncounted(r, err)
		a.conclude(r, req)
	}
}

// addSum reports a sum that is too large, as severely as the policy about single writes does.
func (a *Answer) addSum(r Reviewer, sum *guard.Sum) {
	if sum == nil || r.guarding.onSum == "off" {
		return
	}
	finding := Finding{Rule: ruleid.GuardWindow, Severity: validate.Error, Type: field.ErrorTypeForbidden, Message: sum.String()}
	switch r.guarding.onSum {
	case "warn":
		finding.Severity = validate.Warning
	case "audit":
		finding.Severity = validate.Audit
	}
	a.Findings = append(a.Findings, finding)
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

func (r Reviewer) admit(ctx context.Context, write guard.Write, decide func(guard.Impact) bool) error {
	if r.Impacts == nil || r.GuardPolicies == nil {
		return errors.New("dra-steward runs without --guard")
	}
	return r.Impacts.Admit(ctx, write, decide)
}

// uncounted reports that the impact is not known.
func (a *Answer) uncounted(r Reviewer, err error) {
	severity := validate.Error
	if r.guarding.onError == "warn" {
		severity = validate.Warning
	}
	a.Findings = append(a.Findings, Finding{ruleid.GuardError, severity, field.ErrorTypeInternal, "", fmt.Sprintf(
		"cannot count what this would evict: %v; writes that evict nothing more are always admitted", err)})
}
