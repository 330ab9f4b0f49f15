package review

import (
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
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
	{v1alpha1.DeviceDrainKind, ""}:        of(mutate.DeviceDrain(), nil, validate.DeviceDrain()).own(nil).guarded(anyTime(guard.WidensDrain)),
	{v1alpha1.DeviceReactionKind, ""}:     of(nil, nil, validate.DeviceReaction()).own(nil).guarded(anyTime(guard.WidensReaction)),
	{v1alpha1.DeviceRollKind, ""}:         of(nil, nil, validate.DeviceRoll()).own(nil).guarded(anyTime(guard.WidensRoll)),

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
	widens func(old, object *T, now time.Time) bool
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

// reading sets what reads fields that the type does not have.
func (k kindOf[T]) reading(newer func(data []byte, obj *T)) kindOf[T] {
	k.newer = newer
	return k
}
