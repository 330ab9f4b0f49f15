package review

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/fairqueue"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/newer"
	"github.com/dra-steward/dra-steward/internal/quantity"
	"github.com/dra-steward/dra-steward/internal/ruleid"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// kinds says for every kind, and the subresources that are written to, its rules
// and defaults.
var kinds = map[name]kind{
	{"ResourceSlice", ""}:         of(mutate.ResourceSlice(), apiserver.ResourceSliceDrops(), validate.ResourceSlice()).published(),
	{"ResourceClaim", ""}:         of(mutate.ResourceClaim(), apiserver.ResourceClaimDrops(), validate.ResourceClaim()).reads(apiserver.ResourceClaimStatusDrops()),
	{"ResourceClaim", "status"}:   of(nil, apiserver.ResourceClaimStatusDrops(), validate.ResourceClaimStatus()).reads(apiserver.ResourceClaimDrops()),
	{"ResourceClaimTemplate", ""}: of(mutate.ResourceClaimTemplate(), apiserver.ResourceClaimTemplateDrops(), validate.ResourceClaimTemplate()),
	{"DeviceClass", ""}:           of(nil, apiserver.DeviceClassDrops(), validate.DeviceClass()),
	{"DeviceTaintRule", ""}:       of(mutate.DeviceTaintRule(), apiserver.DeviceTaintRuleDrops(), validate.DeviceTaintRule(), "v1beta2", "v1alpha3").guarded(guard.Widens).reading(newer.Decode),
	{"DeviceTaintRule", "status"}: of(nil, apiserver.DeviceTaintRuleDrops(), validate.DeviceTaintRuleStatus(), "v1beta2", "v1alpha3"),

	{v1alpha1.ResourceSlicePatchKind, ""}: of(nil, nil, validate.ResourceSlicePatch()).own(validate.PatchEffect),
	{v1alpha1.DeviceDrainKind, ""}:        of(mutate.DeviceDrain(), nil, validate.DeviceDrain()).own(nil).guarded(guard.WidensDrain),
	{v1alpha1.DeviceReactionKind, ""}:     of(nil, nil, validate.DeviceReaction()).own(nil).guarded(guard.WidensReaction),
	{v1alpha1.DeviceRollKind, ""}:         of(nil, nil, validate.DeviceRoll()).own(nil).guarded(guard.WidensRoll),

	{validate.PodDeletionKind, ""}: of(nil, nil, validate.PodDeletions()).own(nil),
}

type name struct{ kind, subresource string }

// kind hides the Go type of a kind's objects.
type kind interface {
	serves(version schema.GroupVersion) bool
	review(r Reviewer, req Request, fill, check bool) (Answer, error)
	guard(r Reviewer, req Request) (Answer, error)
	server(r Reviewer, req Request) (field.ErrorList, error)
}

type kindOf[T any] struct {
	defaults mutate.Table[T]
	drops    apiserver.Drops[*T]
	// others are the drops of the half of the object, specification or status, that is
	// read but not written.
	others apiserver.Drops[*T]
	// rules are all rules, clusterRules those for behind an API server, serverRules
	// those that an API server has too.
	rules, clusterRules validate.Table[*T]
	serverRules         apiserver.Table[*T]
	// versions have the same fields.
	versions []schema.GroupVersion
	// warnOnly are the IDs of rules that never deny, whatever the configuration says.
	warnOnly map[string]bool
	// effect returns what an object does to others; nil for kinds that do nothing.
	effect func(*T, validate.Conditions) string
	// widens reports whether a write hits more than what is stored, which is nil on
	// creation; nil for kinds that affect no pods.
	widens func(old, object *T) bool
	// newer reads fields of newer API servers; nil for kinds without any.
	newer func(data []byte, obj *T)
}

func of[T any](defaults mutate.Table[T], drops apiserver.Drops[*T], rules validate.Table[*T], olderVersions ...string) kindOf[T] {
	versions := []schema.GroupVersion{resourceapi.SchemeGroupVersion}
	for _, older := range olderVersions {
		versions = append(versions, schema.GroupVersion{Group: resourceapi.GroupName, Version: older})
	}
	return kindOf[T]{
		defaults: defaults, drops: drops, versions: versions,
		rules: rules, clusterRules: rules.InCluster(), serverRules: rules.Upstream(),
	}
}

// reads adds the drops of the half that is read but not written.
func (k kindOf[T]) reads(others apiserver.Drops[*T]) kindOf[T] {
	k.others = others
	return k
}

// own marks a kind of dra-steward.io.
func (k kindOf[T]) own(effect func(*T, validate.Conditions) string) kindOf[T] {
	k.versions = []schema.GroupVersion{v1alpha1.GroupVersion()}
	k.effect = effect
	return k
}

// published marks a kind that drivers publish piece by piece: a rule that looks beyond
// the piece never denies it.
func (k kindOf[T]) published() kindOf[T] {
	k.warnOnly = map[string]bool{}
	for _, rule := range k.rules {
		if rule.CrossObject {
			k.warnOnly[rule.ID] = true
		}
	}
	return k
}

func (k kindOf[T]) serves(version schema.GroupVersion) bool {
	return slices.Contains(k.versions, version)
}

func (k kindOf[T]) review(r Reviewer, req Request, fill, check bool) (Answer, error) {
	obj, err := k.written(r, req)
	if err != nil {
		return Answer{}, err
	}
	old := func() (*T, error) { return k.read(r, "stored object", req.Old) }
	answer := Answer{Name: displayName(obj)}
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
	answer.setAside(r.observes)
	answer.sort()
	k.learn(authors, obj, req, answer)
	if check && k.effect != nil && r.InCluster && !r.observes && !answer.Denied() {
		if answer.Effect = k.effect(obj, validate.Conditions{ClusterView: r.ClusterView, Expressions: r.expressions}); answer.Effect != "" {
			answer.EffectRule = ruleid.PatchEffect
		}
	}
	return answer, nil
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
	answer.evaluate(req.context(), r.Policies, r.onError(), asked, r.copied(req, asked.Object))
	if req.Kind.Kind == "ResourceSlice" {
		answer.warnOfPolicies()
	}
	return nil
}

// server returns what an API server says that has nothing before it.
func (k kindOf[T]) server(r Reviewer, req Request) (field.ErrorList, error) {
	obj, err := k.object(r, req)
	if err != nil {
		return nil, err
	}
	old, err := k.decode(r, "stored object", req.Old)
	if err != nil {
		return nil, err
	}
	// An API server fills in the same whenever it reads an object, whatever is stored.
	for _, read := range []*T{obj, old} {
		write := mutate.Write[T]{Object: read, Old: func() (*T, error) { return nil, nil }, Now: req.Now}
		if read == nil {
			continue
		}
		if _, err := k.defaults.Apply(write, mutate.Settings{Finalizer: v1alpha1.FinalizerOff}); err != nil {
			return nil, err
		}
	}
	k.drops.Apply(old, obj, old != nil, r.Profile)
	conditions := validate.Conditions{Profile: r.Profile, Expressions: r.expressions}.APIServer()
	if old != nil {
		return k.serverRules.ValidateUpdate(old, obj, conditions), nil
	}
	return k.serverRules.Validate(obj, conditions), nil
}

func (k kindOf[T]) object(r Reviewer, req Request) (*T, error) {
	obj, err := k.decode(r, "object", req.Object)
	if err == nil && obj == nil {
		err = fmt.Errorf("the request has no object: a %s is expected as JSON", req.Kind.Kind)
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
	conditions := validate.Conditions{Limits: r.Limits, Profile: r.Profile, Now: req.Now, Author: req.User,
		ClusterView: r.ClusterView, Parameters: parameters, Expressions: r.expressions, Evaluations: r.Evaluations, Publishers: r.publishers, SliceAuthors: authors, ForceDeleters: r.forceDeleters, DriverPods: r.driverPodSettings()}
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
		return nil, nil, nil
	}
	stored, err := old()
	if err != nil || stored == nil {
		return found, nil, err
	}
	errs, tolerated = rules.ValidateUpdate(stored, obj, conditions)
	return errs, tolerated, nil
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
	if quantity.MayStall(data) {
		return nil, fmt.Errorf("the %s has a number with an exponent or a length that no quantity needs; write it in a shorter form", what)
	}
	obj := new(T)
	if fastDecode(data, obj) {
		return obj, nil
	}
	obj = new(T)
	if err := json.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return nil, fmt.Errorf("the %s is no %T: %w", what, *obj, err)
	}
	return obj, nil
}
