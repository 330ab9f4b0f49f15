package review

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// maxPolicyTimeout is below the time that API servers wait for the webhook.
const maxPolicyTimeout = 2 * time.Second

// PolicySettings returns the settings of the policies in a configuration. Each error is one
// of a field.
func PolicySettings(c v1alpha1.StewardConfiguration) (policy.Settings, error) {
	p := c.Policies
	at := field.NewPath("policies")
	s := policy.Settings{Disabled: p.Disabled, Own: func(own policy.Mode) policy.Mode { return policyMode(c.Mode, own) }}
	var errs []error
	if p.Timeout != nil {
		if s.Timeout = p.Timeout.Duration; s.Timeout <= 0 || s.Timeout > maxPolicyTimeout {
			errs = append(errs, field.Invalid(at.Child("timeout"), p.Timeout.Duration.String(), "must be more than 0s and at most 2s"))
		}
	}
	if p.OnError != "" && p.OnError != v1alpha1.PolicyMode(policy.Warn) && p.OnError != v1alpha1.PolicyMode(policy.Deny) {
		errs = append(errs, field.NotSupported(at.Child("onError"), p.OnError, []policy.Mode{policy.Warn, policy.Deny}))
	}
	var err error
	s.Limits, err = policyLimits(at.Child("limits"), p.Limits)
	errs = append(errs, err)
	s.Modes, s.Parameters, err = policyChoices(at, p.Modes, p.Parameters)
	errs = append(errs, err)
	for i, n := range p.Namespaces {
		inside := at.Child("namespaces").Index(i)
		if len(n.Names) == 0 && n.NamespaceSelector == nil {
			errs = append(errs, field.Required(inside.Child("names"), "name the namespaces, or select them; for all of them there is policies.modes"))
		}
		errs = append(errs, checkNamespaces(n.Names, inside.Child("names")))
		selector, err := protectedSelector(c.ProtectedLabels, n.NamespaceSelector, inside.Child("namespaceSelector"))
		errs = append(errs, err)
		modes, parameters, err := policyChoices(inside, n.Modes, n.Parameters)
		s.Namespaces = append(s.Namespaces, policy.Override{Names: n.Names, Selector: selector, Modes: modes, Parameters: parameters})
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

func policyLimits(at *field.Path, l v1alpha1.PolicyLimits) (policy.Limits, error) {
	var errs []error
	for name, limit := range map[string]int{"tolerations": l.Tolerations, "distinctTolerations": l.DistinctTolerations, "bytes": l.Bytes} {
		if limit < 0 {
			errs = append(errs, field.Invalid(at.Child(name), limit, "must be at least 1; absent uses the default"))
		}
	}
	return policy.Limits{Tolerations: l.Tolerations, DistinctTolerations: l.DistinctTolerations, Bytes: l.Bytes}, errors.Join(errs...)
}

func policyChoices(at *field.Path, modes map[string]v1alpha1.PolicyMode, parameters map[string]json.RawMessage) (map[string]policy.Mode, map[string]map[string]any, error) {
	outModes, outParameters := map[string]policy.Mode{}, map[string]map[string]any{}
	var errs []error
	for _, code := range slices.Sorted(maps.Keys(modes)) {
		mode := policy.Mode(modes[code])
		if !slices.Contains(policy.Modes(), mode) {
			errs = append(errs, field.NotSupported(at.Child("modes").Key(code), mode, policy.Modes()))
		}
		outModes[code] = mode
	}
	for _, code := range slices.Sorted(maps.Keys(parameters)) {
		var values map[string]any
		if err := json.Unmarshal(parameters[code], &values); err != nil {
			errs = append(errs, field.Invalid(at.Child("parameters").Key(code), string(parameters[code]), "must be an object with the parameters of the policy"))
		}
		outParameters[code] = values
	}
	return outModes, outParameters, errors.Join(errs...)
}

// evaluate evaluates the policies until ctx ends. A policy in mode deny that could not be
// evaluated denies, unless the site has set onError to warn.
func (a *Answer) evaluate(ctx context.Context, engine *policy.Engine, onError v1alpha1.PolicyMode, req policy.Request, claim *templateClaim) {
	a.Decision = engine.Evaluate(ctx, req)
	a.leaveToPolicies(engine, req)
	for _, message := range a.Decision.Messages {
		finding := Finding{message.Code, validate.Error, field.ErrorTypeForbidden, message.Path, message.Message}
		if message.Mode == policy.Warn {
			finding.Severity = validate.Warning
		}
		a.weigh(finding, claim, message.Mode)
	}
	for _, failure := range a.Decision.Failures {
		id, severity := failure.Code, validate.Warning
		if id == "" {
			id = PolicyError
		}
		if onError != v1alpha1.PolicyMode(policy.Warn) && failure.Mode == policy.Deny {
			severity = validate.Error
		}
		if onError == v1alpha1.PolicyMode(policy.Audit) {
			severity = validate.Audit
		}
		message := failure.Err.Error()
		if !failure.TimedOut && !failure.TooLarge && !failure.Unreadable {
			message = "policy evaluation failed; the request is not the cause: " + message
		}
		a.weigh(Finding{id, severity, field.ErrorTypeInternal, failure.Path, message}, claim, failure.Mode)
	}
}

// onError is what happens to a write that policies could not evaluate.
func (r Reviewer) onError() v1alpha1.PolicyMode {
	if r.observes {
		return v1alpha1.PolicyMode(policy.Audit)
	}
	return r.onPolicyError
}

// PolicyError is the ID under which it is reported that policies could not be evaluated.
const PolicyError = ruleid.PolicyError

// policyRequest is what the policies are asked about.
func (r Reviewer) policyRequest(req Request, name string, object any) policy.Request {
	parameters, err := r.parameters()
	if err != nil {
		parameters = nil // then no configuration is known
	}
	p := policy.Request{
		Kind: req.Kind.Kind, Name: name, Namespace: req.Namespace, GeneratedBy: r.generator(req), DryRun: req.DryRun,
		Now: req.Now, Object: object, Raw: req.Object, ClusterView: r.ClusterView, ClusterData: r.ClusterData, Parameters: parameters,
		WithoutPreviews: !r.Profile.Since(35),
	}
	if req.User != nil {
		p.User, p.Groups = req.User.Username, req.User.Groups
	}
	return p
}

// generator reports by the authenticated user alone whether a component of Kubernetes
// writes, and which.
func (r Reviewer) generator(req Request) policy.Author {
	if !r.exemptions.system(req) {
		return policy.User
	}
	switch {
	case strings.HasSuffix(req.User.Username, "kube-scheduler"):
		return policy.Scheduler
	case strings.HasSuffix(req.User.Username, "resource-claim-controller"):
		return policy.ClaimController
	default:
		return policy.ControllerManager
	}
}

// leaveToPolicies takes out what rules have found where a policy says the same: a
// problem is reported once. Where evaluating the policy failed, the rule stays.
func (a *Answer) leaveToPolicies(engine *policy.Engine, req policy.Request) {
	failed := func(code string) bool {
		return slices.ContainsFunc(a.Decision.Failures, func(f policy.Failure) bool { return f.Code == code || f.Code == "" })
	}
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		code, replaced := engine.InsteadOf(f.Rule, req)
		return replaced && !failed(code)
	})
}

// warnOfPolicies lets no policy deny a slice: a driver that cannot publish is worse than
// anything that a policy may find.
func (a *Answer) warnOfPolicies() {
	for i, f := range a.Findings {
		if ruleid.IsPolicy(f.Rule) {
			a.Findings[i].Severity = max(f.Severity, validate.Warning)
		}
	}
}
