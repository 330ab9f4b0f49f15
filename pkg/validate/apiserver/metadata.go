package apiserver

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

// metadata is the metadata of an object of some kind.
type metadata struct {
	*metav1.ObjectMeta
	// namespaced kinds live in a namespace. That of a manifest may be missing: kubectl
	// fills it in. One of another kind is cleared by the API server.
	namespaced bool
	// numbered kinds get their generation from the API server.
	numbered bool
	// class kinds do not check generateName by itself since 1.35.
	class bool
	// named kinds look at the form of the name in an update too.
	named bool
}

var metadataPath = field.NewPath("metadata")

// metadataRules are the rules for the metadata of every kind.
var metadataRules = Table[metadata]{
	{
		ID: "metadata-name",
		Doc: `The name of an object is a DNS subdomain.

At most 253 bytes of lower case letters, digits, "-" and ".". With generateName
instead, the API server creates the name by appending five letters and digits.`,
		Upstream: "the same in all versions",
		Source:   "ValidateObjectMeta, NameIsDNSSubdomain",
		Check:    metadataName,
		Update:   metadataNameUpdate,
	},
	{
		ID: "metadata-namespace",
		Doc: `The namespace of a claim or a template is a DNS label.

It can be absent in a manifest, because the client fills it in.`,
		Upstream: "the same in all versions",
		Source:   "ValidateObjectMeta, ValidateNamespaceName",
		Check:    metadataNamespace,
	},
	{
		ID: "metadata-labels",
		Doc: `Labels have label names as keys and label values as values.

A key is an optional DNS subdomain and a slash, then at most 63 bytes of letters,
digits, "-", "_" and "."; a value the same 63 bytes, or nothing.`,
		Upstream: "the same in all versions",
		Source:   "ValidateLabels",
		Check:    metadataLabels,
	},
	{
		ID: "metadata-annotations",
		Doc: `Annotations have label names as keys and take at most 256 KiB together.

Keys and values count; upper case is allowed in the domain of a key.`,
		Upstream: "the same in all versions",
		Source:   "ValidateAnnotations, TotalAnnotationSizeLimitB",
		Check:    metadataAnnotations,
	},
	{
		ID: "metadata-owners",
		Doc: `An owner reference has apiVersion, kind, name and uid, and one of them at most is the controller.

The garbage collector uses these fields to find the owner.`,
		Upstream: "the same in all versions; until 1.36 without saying which reference",
		Source:   "ValidateOwnerReferences",
		Check:    metadataOwners,
	},
	{
		ID: "metadata-finalizers",
		Doc: `Finalizers are names with a domain; orphan and foregroundDeletion exclude each other.

An object exists until each of them is removed.`,
		Upstream: "the same in all versions",
		Source:   "ValidateFinalizers",
		Check:    metadataFinalizers,
	},
	{
		ID: "metadata-managed-fields",
		Doc: `Managed fields have the form that the API server writes.

Leave them out of manifests: the API server records in them which client wrote which field.`,
		Upstream: "the same in all versions",
		Source:   "ValidateManagedFields",
		Check:    metadataManagedFields,
	},
	{
		ID: "metadata-generation",
		Doc: `The generation of an object is not negative.

Leave it out of manifests: the API server sets it.`,
		Upstream: "the same for claims and templates; sets it for other kinds",
		Source:   "ValidateNonnegativeField",
		Check:    metadataGeneration,
		Update:   func(_, _ metadata, _ Pass) field.ErrorList { return nil },
	},
	{
		ID: "metadata-immutable",
		Doc: `Name, namespace and uid of an object do not change.

The times of creation and deletion do not change either, and an object in deletion gets no
new finalizers.`,
		Upstream: "the same in all versions",
		Source:   "ValidateObjectMetaUpdate",
		Update:   metadataImmutable,
	},
}

// generated is what an API server appends to generateName, after at most 58 bytes.
const generated = "bcdfg"

// metadataName looks at the name that the object will have.
func metadataName(m metadata, c Pass) (errs field.ErrorList) {
	prefix, name := m.GenerateName, m.Name
	if name == "" && prefix != "" {
		name = prefix[:min(len(prefix), 58)] + generated
	}
	if name == "" {
		errs = append(errs, field.Required(metadataPath.Child("name"), "name or generateName is required"))
	} else {
		errs = append(errs, form.AllOf(metadataPath.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	if prefix != "" && !(m.class && c.Profile.Since(35)) {
		errs = append(errs, form.AllOf(metadataPath.Child("generateName"), prefix, apivalidation.NameIsDNSSubdomain(prefix, true))...)
	}
	if prefix != "" && len(errs) == 0 {
		errs = append(errs, pathSegment(metadataPath.Child("generateName"), prefix)...)
	}
	return errs
}

func metadataNameUpdate(_, m metadata, c Pass) (errs field.ErrorList) {
	if m.named {
		errs = metadataName(m, c)
	} else if m.Name == "" {
		errs = append(errs, field.Required(metadataPath.Child("name"), "name or generateName is required"))
	}
	errs = append(errs, pathSegment(metadataPath.Child("name"), m.Name)...)
	return append(errs, pathSegment(metadataPath.Child("generateName"), m.GenerateName)...)
}

// pathSegment reports a name that cannot be a part of a URL.
func pathSegment(at *field.Path, name string) (errs field.ErrorList) {
	if name == "." || name == ".." {
		errs = append(errs, field.Invalid(at, name, "may not be '.' or '..'"))
	}
	if strings.ContainsAny(name, "/%") {
		errs = append(errs, field.Invalid(at, name, "may not contain '/' or '%'"))
	}
	return errs
}

func metadataNamespace(m metadata, _ Pass) field.ErrorList {
	if !m.namespaced || m.Namespace == "" {
		return nil
	}
	return form.AllOf(metadataPath.Child("namespace"), m.Namespace, apivalidation.ValidateNamespaceName(m.Namespace, false))
}

// metadataLabels repeats ValidateLabels, and names the label of a value.
func metadataLabels(m metadata, _ Pass) (errs field.ErrorList) {
	at := metadataPath.Child("labels")
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		errs = append(errs, metav1validation.ValidateLabelName(key, at)...)
		value := m.Labels[key]
		for _, message := range validation.IsValidLabelValue(value) {
			if len(value) > validation.LabelValueMaxLength {
				message += fmt.Sprintf(", is %d bytes", len(value))
			}
			errs = append(errs, field.Invalid(at, value, "label "+key+": "+message))
		}
	}
	return errs
}

// metadataAnnotations repeats ValidateAnnotations, and says how large the annotations are.
func metadataAnnotations(m metadata, _ Pass) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(m.Annotations, metadataPath.Child("annotations"))
	for _, err := range errs {
		if err.Type == field.ErrorTypeTooLong {
			size := 0
			for key, value := range m.Annotations {
				size += len(key) + len(value)
			}
			err.Detail = fmt.Sprintf("keys and values are %d bytes together, %s", size, err.Detail)
		}
	}
	return errs
}

var ownerIndex = regexp.MustCompile(`^(metadata\.ownerReferences)\[\d+\]`)

func metadataOwners(m metadata, c Pass) field.ErrorList {
	errs := apivalidation.ValidateOwnerReferences(m.OwnerReferences, metadataPath.Child("ownerReferences"))
	if c.Profile.Since(37) {
		return errs
	}
	for _, err := range errs {
		err.Type, err.Field = field.ErrorTypeInvalid, ownerIndex.ReplaceAllString(err.Field, "$1")
	}
	return errs
}

func metadataFinalizers(m metadata, _ Pass) field.ErrorList {
	at := metadataPath.Child("finalizers")
	errs := apivalidation.ValidateFinalizers(m.Finalizers, at)
	for i, name := range m.Finalizers {
		if !strings.Contains(name, "/") && !slices.Contains(standardFinalizers, name) {
			errs = append(errs, field.Invalid(at.Index(i), name, "needs a domain, such as example.com/finalizer"))
		}
	}
	return errs
}

// standardFinalizers are those without a domain.
var standardFinalizers = []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

func metadataManagedFields(m metadata, c Pass) field.ErrorList {
	errs := metav1validation.ValidateManagedFields(m.ManagedFields, metadataPath.Child("managedFields"))
	for _, err := range errs {
		if !c.Profile.Since(37) && strings.HasSuffix(err.Field, ".operation") {
			err.Type = field.ErrorTypeInvalid
		}
	}
	return errs
}

func metadataGeneration(m metadata, _ Pass) field.ErrorList {
	if m.numbered {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(m.Generation, metadataPath.Child("generation"))
}

// metadataImmutable compares what is left after an API server has filled in and
// restored what no client can change.
func metadataImmutable(old, m metadata, _ Pass) field.ErrorList {
	was, is := identity(old), identity(m)
	if was.ResourceVersion == "" {
		was.ResourceVersion = "1"
	}
	if is.ResourceVersion == "" {
		is.ResourceVersion = was.ResourceVersion
	}
	if is.Namespace == "" {
		is.Namespace = was.Namespace
	}
	if is.UID == "" {
		is.UID = was.UID
	}
	if !was.CreationTimestamp.IsZero() {
		is.CreationTimestamp = was.CreationTimestamp
	}
	if !was.DeletionTimestamp.IsZero() {
		is.DeletionTimestamp = was.DeletionTimestamp
	}
	if was.DeletionGracePeriodSeconds != nil && is.DeletionGracePeriodSeconds == nil {
		is.DeletionGracePeriodSeconds = was.DeletionGracePeriodSeconds
	}
	return apivalidation.ValidateObjectMetaAccessorUpdate(is, was, metadataPath)
}

// identity is the part of metadata that other rules do not look at.
func identity(m metadata) *metav1.ObjectMeta {
	only := &metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Finalizers: m.Finalizers,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
	if m.namespaced {
		only.Namespace = m.Namespace
	}
	return only
}

// The rules for the metadata of each kind.
var (
	sliceMetadata = lift(func(o *resourceapi.ResourceSlice) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true}
	}, metadataRules)
	taintRuleMetadata = lift(func(o *resourceapi.DeviceTaintRule) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true}
	}, metadataRules)
	claimMetadata = lift(func(o *resourceapi.ResourceClaim) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true, named: true}
	}, metadataRules)
	templateMetadata = lift(func(o *resourceapi.ResourceClaimTemplate) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true, named: true}
	}, metadataRules)
	classMetadata = lift(func(o *resourceapi.DeviceClass) metadata {
		return metadata{ObjectMeta: &o.ObjectMeta, numbered: true, class: true, named: true}
	}, metadataRules)

	claimStatusMetadata = liftReset(metadataRules, claimStatusPart)
)

func claimStatusPart(o *resourceapi.ResourceClaim) metadata {
	return metadata{ObjectMeta: &o.ObjectMeta, namespaced: true}
}

// liftReset is lift for an update of the status, which takes most of the metadata from
// the stored object.
func liftReset[T any](rules Table[metadata], part func(T) metadata) Table[T] {
	reset := make(Table[metadata], len(rules))
	for i, rule := range rules {
		check := rule.Update
		if check == nil {
			check = func(_, m metadata, c Pass) field.ErrorList { return rule.Check(m, c) }
		}
		reset[i] = rule
		reset[i].Update = func(old, m metadata, c Pass) field.ErrorList {
			return check(old, m.resetTo(old), c)
		}
	}
	return lift(part, reset)
}

// resetTo is m after an API server has prepared an update of the status.
func (m metadata) resetTo(old metadata) metadata {
	changed := *m.ObjectMeta
	metav1.ResetObjectMetaForStatus(&changed, old.ObjectMeta)
	m.ObjectMeta = &changed
	return m
}
