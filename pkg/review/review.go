package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/internal/serving/fairqueue"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// A Request is one write.
type Request struct {
	// Context ends when the answer is no longer needed; nil never ends. What is not
	// evaluated by then is reported as a failure, see [PolicyError].
	Context context.Context
	// Kind is the kind of the object, Subresource "status" or empty.
	Kind        schema.GroupVersionKind
	Subresource string
	// Object is the object as JSON in the v1 form of its kind. DeviceTaintRules may
	// be in any version: their fields are the same.
	Object []byte
	// Decoded keeps what Object is, for further requests with the same Object and to Reviewers
	// with the same Profile; nil decodes it each time. A report asks up to ten times about a claim.
	Decoded *runtime.Object
	// Old is what is stored now, nil on creation.
	Old []byte
	// Namespace is that of the object, as the API server names it; empty outside of a
	// cluster.
	Namespace string
	// User is who writes, as the API server has authenticated them; nil outside of a
	// cluster.
	User *authenticationv1.UserInfo
	// DryRun is true if nothing will be stored.
	DryRun bool
	// Now is the time of the write.
	Now time.Time
}

func (r Request) context() context.Context {
	if r.Context == nil {
		return context.Background()
	}
	return r.Context
}

// warningTime is the first half of the time: rules that only warn leave the rest to those
// that deny.
func (r Request) warningTime() (context.Context, context.CancelFunc) {
	ctx := r.context()
	deadline, has := ctx.Deadline()
	if !has || r.Now.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, r.Now.Add(deadline.Sub(r.Now)/2))
}

// ended returns an error if the answer is no longer needed.
func (r Request) ended() error {
	if err := r.context().Err(); err != nil {
		return fmt.Errorf("the check was stopped: %w", err)
	}
	return nil
}

// A Reviewer checks writes. The zero value checks as without a configuration; New makes one from a configuration.
type Reviewer struct {
	Limits   validate.Limits
	Defaults mutate.Settings
	// Profile is the API server that the mirror rules repeat.
	Profile apiserver.Profile
	// ClusterView has the other objects that rules see; nil leaves out the rules that
	// read it.
	ClusterView validate.ClusterView
	// Parameters is what the rules know about the opaque parameters of drivers; nil
	// stands for the schemas that come with dra-steward.
	Parameters validate.Parameters
	// SelectorTime is how long the selectors of one write may be evaluated on the devices of
	// the ClusterView; 0 sets no limit.
	SelectorTime time.Duration
	// Evaluations caches their results; nil evaluates again for each write.
	Evaluations *validate.Evaluations
	// Policies are evaluated after the rules; nil means none.
	Policies *policy.Engine
	// ClusterData is what the policies know of the cluster; nil is nothing.
	ClusterData policy.ClusterData
	// Templates return the age of ResourceClaimTemplates; nil knows none.
	Templates Templates
	// PoliciesSince returns when a policy began to deny what it denies now, by its code; nil
	// knows of none. A claim from a template that is older, or of unknown age, is never
	// refused.
	PoliciesSince func(code string) (since time.Time, known bool)
	// Impacts counts what a write would affect, and GuardPolicies check that; see Guard.
	Impacts       Impacts
	GuardPolicies *policy.Engine
	// Slices write ResourceSlicePatches into slices; nil leaves slices alone.
	Slices Slices
	// SliceAuthors remembers who publishes for a driver; nil does not.
	SliceAuthors *SliceAuthors
	// PatchWriter is the user who writes slices so that patches are merged into them. The rules about
	// authors do not check its updates that change attributes and capacity at most.
	PatchWriter string
	// InCluster leaves out the rules that only repeat the API server, for use
	// behind one.
	InCluster bool

	// expressions caches compiled expressions; nil compiles each time.
	expressions *validate.Expressions
	// severities are those of a site; nil stands for the rules' own.
	severities    severities
	exemptions    exemptions
	publishers    map[string]validate.Publishers
	forceDeleters validate.Deleters
	driverPods    v1alpha1.DriverPods
	protected     v1alpha1.ProtectedLabels
	// observes is true in the mode observe: answers deny, warn and change nothing.
	observes bool
	// unreadable is what a request weighs that cannot be read.
	unreadable validate.Severity
	// onPolicyError is warn or deny; empty is deny.
	onPolicyError v1alpha1.PolicyMode
	guarding      guarding
}

// An Answer is the answer to a write.
type Answer struct {
	// Name of the object; generateName followed by "*" while it has none.
	Name string
	// Changes are the defaults that were filled in.
	Changes []mutate.Change
	// Withheld are those that are not, because the mode is observe.
	Withheld []mutate.Change
	// Findings are what is wrong, errors before warnings.
	Findings []Finding
	// Exempted are the problems that an exemption lets pass, for the audit log.
	Exempted []Exempted
	// Effect is what the object does to others, as far as the ClusterView shows; empty for
	// most kinds.
	Effect string
	// EffectRule is the ID under which "explain" describes the Effect; empty with it.
	EffectRule string
	// Audited are what rules with the severity audit and policies in that mode object to:
	// for the audit log only.
	Audited []Finding
	// Decision is what the policies have said.
	Decision policy.Decision
}

// Unchecked reports whether a rule that only warns had no time.
func (a Answer) Unchecked() bool {
	return slices.ContainsFunc(a.Findings, func(f Finding) bool {
		return f.Type == field.ErrorTypeInternal && (f.Rule == validate.PatchOutcome || f.Rule == validate.DrainDevicesExist)
	})
}

// Denied reports whether a finding is an error.
func (a Answer) Denied() bool {
	return len(a.Findings) > 0 && a.Findings[0].Severity == validate.Error
}

// Mutate returns the defaults for a write, with warnings about what looks wrong.
func (r Reviewer) Mutate(req Request) (Answer, error) {
	k, err := lookup(req)
	if err != nil {
		return Answer{}, err
	}
	return k.review(r, req, true, false)
}

// Validate returns what is wrong with a write whose defaults are filled in.
func (r Reviewer) Validate(req Request) (Answer, error) {
	k, err := lookup(req)
	if err != nil {
		return Answer{}, err
	}
	return k.review(r, req, false, true)
}

// Review fills in the defaults, drops what the API server of the profile would not
// keep, and then validates the result.
func (r Reviewer) Review(req Request) (Answer, error) {
	k, err := lookup(req)
	if err != nil {
		return Answer{}, err
	}
	return k.review(r, req, true, true)
}

// Server returns what the API server of the profile would say by itself: its own
// defaults, limits and rules, whatever the configuration says.
func (r Reviewer) Server(req Request) (field.ErrorList, error) {
	k, err := lookup(req)
	if err != nil {
		return nil, err
	}
	return k.server(r, req)
}

func lookup(req Request) (kind, error) {
	if k, known := kinds[name{req.Kind.Kind, req.Subresource}]; known && k.serves(req.Kind.GroupVersion()) {
		return k, nil
	}
	return nil, UnknownKindError{req.Kind, req.Subresource}
}

// A Finding is one thing that is wrong.
type Finding struct {
	// Rule is the ID of the rule or default that found it.
	Rule     string
	Severity validate.Severity
	// Type is the kind of the problem as the API server names it.
	Type field.ErrorType
	// Path is the place in the notation of field.Path, list items by their names.
	Path string
	// Message is the problem and its remedy, without the path.
	Message string
}

// sort puts errors before warnings.
func (a *Answer) sort() {
	slices.SortStableFunc(a.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
}

// add appends what rules have found. Those that warnOnly names never weigh more than a
// warning.
func (a *Answer) add(errs field.ErrorList, warnOnly map[string]bool, severities severities) {
	for _, err := range errs {
		severity := severities.of(err.Origin)
		if warnOnly[err.Origin] {
			severity = max(severity, validate.Warning)
		}
		a.append(err, severity)
	}
}

// addTolerated appends what was there before and is no worse now: at most a warning.
func (a *Answer) addTolerated(errs field.ErrorList, severities severities) {
	for _, err := range errs {
		a.append(err, max(severities.of(err.Origin), validate.Warning))
	}
}

func (a *Answer) append(err *field.Error, severity validate.Severity) {
	if severity != validate.Off {
		a.Findings = append(a.Findings, Finding{err.Origin, severity, err.Type, err.Field, err.ErrorBody()})
	}
}

// addWarnings appends what defaults have found.
func (a *Answer) addWarnings(warnings []mutate.Warning, severities severities) {
	for _, w := range warnings {
		if severity := max(severities.of(w.Default), validate.Warning); severity != validate.Off {
			a.Findings = append(a.Findings, Finding{w.Default, severity, field.ErrorTypeInvalid, w.Path, w.Message})
		}
	}
}

func displayName(obj any) string {
	meta, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	if meta.GetName() == "" && meta.GetGenerateName() != "" {
		return meta.GetGenerateName() + "*"
	}
	return meta.GetName()
}

func namespaceOf(obj any) string {
	if meta, ok := obj.(metav1.Object); ok {
		return meta.GetNamespace()
	}
	return ""
}

// written is object, with the fields that the type does not have.
func (k kindOf[T]) written(r Reviewer, req Request) (*T, error) {
	obj, err := k.object(r, req)
	if err == nil && k.newer != nil {
		k.newer(req.Object, obj)
	}
	return obj, err
}

// read is decode, with the fields that the type does not have.
func (k kindOf[T]) read(r Reviewer, what string, data []byte) (*T, error) {
	obj, err := k.decode(r, what, data)
	if obj != nil && k.newer != nil {
		k.newer(data, obj)
	}
	return obj, err
}

// stored reads the stored object. Without one that can be read, an update is checked as a creation, and the answer says
// so: who corrects it must not be stopped.
func (k kindOf[T]) stored(r Reviewer, req Request, answer *Answer) func() (*T, error) {
	said := false
	return func() (*T, error) {
		stored, err := k.read(r, "stored object", req.Old)
		if err != nil && !said {
			said = true
			answer.Findings = append(answer.Findings, Finding{Rule: ruleid.RequestError, Severity: max(validate.Warning, r.unreadable), Message: err.Error() + ": the update is checked as a creation"})
		}
		return stored, nil
	}
}

func (k kindOf[T]) review(r Reviewer, req Request, fill, check bool) (Answer, error) {
	obj, err := k.written(r, req)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Name: displayName(obj)}
	old := k.stored(r, req, &answer)
	severities := r.severities
	if severities == nil {
		severities = ownSeverities
	}
	if fill {
		result, err := k.defaults.Apply(mutate.Write[T]{Object: obj, Old: old, Now: req.Now, Author: r.author(req)}, r.Defaults)
		if err != nil {
			return Answer{}, err
		}
		answer.Changes = result.Changes
		answer.addWarnings(result.Warnings, severities)
	}
	if fill && !check && r.InCluster {
		if err := k.inCluster(r, &answer, obj, req, old, severities); err != nil {
			return Answer{}, err
		}
	}
	if check && !r.InCluster {
		if err := k.drop(r, &answer, obj, old, severities); err != nil {
			return Answer{}, err
		}
	}
	var authors validate.SliceAuthors
	if check {
		if authors, err = k.sliceAuthors(r, obj, old, req); err == nil {
			err = k.examine(r, &answer, obj, old, req, authors, severities)
		}
		if err != nil {
			return Answer{}, err
		}
	}
	answer.exempt(r, req)
	answer.setAside(r.observes, len(req.Old) > 0)
	answer.sort()
	k.learn(authors, obj, req, answer)
	if check && k.effect != nil && r.InCluster && !r.observes && !answer.Denied() {
		k.describe(r, &answer, obj, req)
	}
	return answer, nil
}

// describe adds what the object does to others.
func (k kindOf[T]) describe(r Reviewer, answer *Answer, obj *T, req Request) {
	warning, done := req.warningTime()
	defer done()
	if answer.Effect = k.effect(obj, validate.Conditions{Context: warning, ClusterView: r.ClusterView, Expressions: r.expressions}); answer.Effect != "" {
		answer.EffectRule = ruleid.PatchEffect
	}
}

// examine adds what rules and policies find.
func (k kindOf[T]) examine(r Reviewer, answer *Answer, obj *T, old func() (*T, error), req Request, authors validate.SliceAuthors, severities severities) error {
	errs, tolerated, err := k.check(r, obj, old, req, authors)
	if err != nil {
		return err
	}
	answer.add(errs, k.warnOnly, severities)
	answer.addTolerated(tolerated, severities)
	return k.policies(r, answer, obj, old, req)
}

// policies asks those that apply.
func (k kindOf[T]) policies(r Reviewer, answer *Answer, obj *T, old func() (*T, error), req Request) error {
	asked := r.policyRequest(req, answer.Name, obj)
	if r.Policies == nil || req.Subresource != "" || !r.Policies.Applies(asked) {
		return nil
	}
	stored, err := old()
	if err != nil {
		return err
	}
	asked.Old = stored
	answer.evaluate(req.context(), r.Policies, r.onError(), asked, r.templateClaim(req, asked.Object))
	if req.Kind.Kind == "ResourceSlice" {
		answer.warnOfPolicies()
	}
	return nil
}

func (k kindOf[T]) object(r Reviewer, req Request) (*T, error) {
	if req.Decoded != nil && *req.Decoded != nil {
		if kept, is := any((*req.Decoded).DeepCopyObject()).(*T); is {
			return kept, nil
		}
	}
	obj, err := k.decode(r, "object", req.Object)
	if err == nil && obj == nil {
		err = fmt.Errorf("the request has no object: a %s is expected as JSON", req.Kind.Kind)
	}
	if known, is := any(obj).(runtime.Object); is && err == nil && req.Decoded != nil {
		*req.Decoded = known.DeepCopyObject() // a review fills in defaults
	}
	return obj, err
}

// decode reads an object without what the API server of the profile does not read.
func (k kindOf[T]) decode(r Reviewer, what string, data []byte) (*T, error) {
	obj, err := decode[T](what, data)
	if err == nil {
		return obj, nil
	}
	unknown := append(k.drops.Unknown(r.Profile), k.others.Unknown(r.Profile)...)
	if len(unknown) > 0 {
		return decode[T](what, without(data, unknown))
	}
	return nil, err
}

// drop does what no webhook has to: the server behind it drops fields itself.
func (k kindOf[T]) drop(r Reviewer, answer *Answer, obj *T, old func() (*T, error), severities severities) error {
	if !slices.ContainsFunc(k.drops, func(d apiserver.Drop[*T]) bool { return d.Uses(obj) }) {
		return nil
	}
	stored, err := old()
	if err != nil {
		return err
	}
	findings, err := drop(k.drops, stored, obj, r.Profile)
	if severity := severities.of(ruleid.FieldDropped); severity != validate.Off {
		for i := range findings {
			findings[i].Severity = severity
		}
		answer.Findings = append(answer.Findings, findings...)
	}
	return err
}

// check decodes the old object only if a rule needs it.
func (k kindOf[T]) check(r Reviewer, obj *T, old func() (*T, error), req Request, authors validate.SliceAuthors) (errs, tolerated field.ErrorList, err error) {
	rules := k.rules
	if r.InCluster {
		rules = k.clusterRules
	}
	parameters, err := r.parameters()
	if err != nil {
		return nil, nil, err
	}
	warning, done := req.warningTime()
	defer done()
	conditions := validate.Conditions{Context: warning, Limits: r.Limits, Profile: r.Profile, Now: req.Now, Author: req.User,
		ClusterView: r.ClusterView, Parameters: parameters, Expressions: r.expressions, Evaluations: r.Evaluations, Publishers: r.publishers, SliceAuthors: authors, ForceDeleters: r.forceDeleters, DriverPods: r.driverPodSettings(),
		Ended: func() bool { return req.ended() != nil }}
	if merges, err := k.mergesPatches(r, obj, old, req); err != nil {
		return nil, nil, err
	} else if merges || keepsSlice(req) {
		conditions.Author = nil
	}
	if r.exemptions.system(req) {
		conditions.ClusterView = nil // rules about the cluster only warn, and components read no warnings
	}
	if site := r.Defaults.Tolerations; site != nil {
		author, namespace := r.author(req), namespaceOf(obj)
		conditions.MaxTolerationSeconds = func(class string) *int64 {
			return mutate.MaxTolerationSeconds(site, class, namespace, author)
		}
	}
	if r.SelectorTime > 0 {
		conditions.Limiter = fairqueue.Allow(req.context(), r.SelectorTime)
	}
	found := rules.Validate(obj, conditions)
	if len(found) == 0 && (len(req.Old) == 0 || !comparing(rules)) {
		return nil, nil, req.ended()
	}
	stored, err := old()
	if err != nil || stored == nil {
		return found, nil, cmp.Or(err, req.ended())
	}
	errs, tolerated = rules.ValidateUpdate(stored, obj, conditions)
	return errs, tolerated, req.ended()
}

// comparing reports whether a rule checks an update without checking the object itself.
func comparing[T any](rules validate.Table[T]) bool {
	for i := range rules {
		if rules[i].Check == nil {
			return true
		}
	}
	return false
}

// decode reads JSON as the API server does: case-sensitive, and blind for fields
// that this version does not know. It returns nil for no data.
func decode[T any](what string, data []byte) (*T, error) {
	if len(data) == 0 {
		return nil, nil
	}
	obj := new(T)
	if err := quantity.Scan(data, obj); err != nil {
		return nil, fmt.Errorf("the %s has a number that cannot be read: %w", what, err)
	}
	if fastDecode(data, obj) {
		return obj, nil
	}
	obj = new(T)
	if err := json.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return nil, fmt.Errorf("the %s is no %T: %w", what, *obj, err)
	}
	return obj, nil
}

// exempt takes out of the findings those that do not count for this write.
func (a *Answer) exempt(r Reviewer, req Request) {
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		reason, place := r.reason(f.Rule, req)
		if place != "" {
			a.Exempted = append(a.Exempted, Exempted{f, reason, place})
		}
		return place != ""
	})
}

// setAside keeps the findings that are for the audit log only out of the answer, and who
// observes, what would be changed.
func (a *Answer) setAside(observes, update bool) {
	if observes {
		for _, change := range a.Changes {
			if withheld(change.Default, update) {
				a.Withheld = append(a.Withheld, change)
			}
		}
		a.Changes = slices.DeleteFunc(a.Changes, func(c mutate.Change) bool { return withheld(c.Default, update) })
	}
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		if f.Severity == validate.Audit {
			a.Audited = append(a.Audited, f)
		}
		return f.Severity == validate.Audit
	})
}
