package review

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
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
	// PoliciesSince says since when a policy denies what it denies now, by its code; nil
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

// UnknownKindError says that there are no rules for an object of this kind.
type UnknownKindError struct {
	Kind        schema.GroupVersionKind
	Subresource string
}

func (e UnknownKindError) Error() string {
	what := e.Kind.GroupKind().String()
	if e.Subresource != "" {
		what += "/" + e.Subresource
	}
	return fmt.Sprintf("dra-steward has no rules for %s (%s); it checks ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice and DeviceTaintRule of %s and ResourceSlicePatch, DeviceDrain, DeviceReaction and DeviceRoll of %s: correct the rules of the webhook configuration",
		what, e.Kind.GroupVersion(), resourceapi.GroupName, v1alpha1.Group)
}

func lookup(req Request) (kind, error) {
	if k, known := kinds[name{req.Kind.Kind, req.Subresource}]; known && k.serves(req.Kind.GroupVersion()) {
		return k, nil
	}
	return nil, UnknownKindError{req.Kind, req.Subresource}
}
