package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	convertv1beta1 "k8s.io/dynamic-resource-allocation/api/v1beta1"
	convertv1beta2 "k8s.io/dynamic-resource-allocation/api/v1beta2"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Object is what all types are that [Decode] knows.
type Object interface {
	runtime.Object
	metav1.Object
}

// Version says in which Kubernetes releases a version of a kind is served.
type Version struct {
	// Name is the version without the group: "v1beta1".
	Name string
	// Introduced, Deprecated and Removed are releases such as "1.34"; the last
	// two are empty for a version that is there to stay.
	Introduced, Deprecated, Removed string
	// OffByDefault is set for versions that an API server serves only with
	// --runtime-config: all but the stable one.
	OffByDefault bool
}

// String returns "v1 (since 1.34)" or "v1beta1 (1.32 until 1.38)", where the
// second release is the first one without the version; of our own kinds only the name.
func (v Version) String() string {
	if v.Introduced == "" {
		return v.Name
	}
	if v.Removed == "" {
		return fmt.Sprintf("%s (since %s)", v.Name, v.Introduced)
	}
	return fmt.Sprintf("%s (%s until %s)", v.Name, v.Introduced, v.Removed)
}

// form is one version of a kind: how to make an object and how to make the stable
// version of it.
type form struct {
	group, name string
	make        func() Object
	toV1        func(Object) (Object, error)
}

// kinds holds the forms of every kind that Decode knows, the stable one first.
var kinds = map[string][]form{
	"DeviceClass": {
		stable[resourcev1.DeviceClass](),
		converted("v1beta2", convertv1beta2.Convert_v1beta2_DeviceClass_To_v1_DeviceClass),
		converted("v1beta1", convertv1beta1.Convert_v1beta1_DeviceClass_To_v1_DeviceClass),
	},
	"DeviceTaintRule": {
		stable[resourcev1.DeviceTaintRule](),
		converted("v1beta2", convertv1beta2.Convert_v1beta2_DeviceTaintRule_To_v1_DeviceTaintRule),
		converted("v1alpha3", alphaTaintRule),
	},
	"ResourceClaim": {
		stable[resourcev1.ResourceClaim](),
		converted("v1beta2", convertv1beta2.Convert_v1beta2_ResourceClaim_To_v1_ResourceClaim),
		converted("v1beta1", convertv1beta1.Convert_v1beta1_ResourceClaim_To_v1_ResourceClaim),
	},
	"ResourceClaimTemplate": {
		stable[resourcev1.ResourceClaimTemplate](),
		converted("v1beta2", convertv1beta2.Convert_v1beta2_ResourceClaimTemplate_To_v1_ResourceClaimTemplate),
		converted("v1beta1", convertv1beta1.Convert_v1beta1_ResourceClaimTemplate_To_v1_ResourceClaimTemplate),
	},
	"ResourceSlice": {
		stable[resourcev1.ResourceSlice](),
		converted("v1beta2", convertv1beta2.Convert_v1beta2_ResourceSlice_To_v1_ResourceSlice),
		converted("v1beta1", convertv1beta1.Convert_v1beta1_ResourceSlice_To_v1_ResourceSlice),
	},
	v1alpha1.ResourceSlicePatchKind: {own[v1alpha1.ResourceSlicePatch]()},
	v1alpha1.DeviceDrainKind:        {own[v1alpha1.DeviceDrain]()},
	v1alpha1.DeviceReactionKind:     {own[v1alpha1.DeviceReaction]()},
	v1alpha1.DeviceRollKind:         {own[v1alpha1.DeviceRoll]()},
}

// alphaTaintRule goes through v1beta2, of which v1alpha3 differs in name only.
func alphaTaintRule(in *resourcev1alpha3.DeviceTaintRule, out *resourcev1.DeviceTaintRule, _ conversion.Scope) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
	if err != nil {
		return err
	}
	var beta resourcev1beta2.DeviceTaintRule
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &beta); err != nil {
		return err
	}
	return convertv1beta2.Convert_v1beta2_DeviceTaintRule_To_v1_DeviceTaintRule(&beta, out, nil)
}

// pointer is the pointer type of an API type.
type pointer[T any] interface {
	*T
	Object
}

func stable[T any, P pointer[T]]() form {
	return form{
		group: resourcev1.GroupName, name: "v1",
		make: func() Object { return P(new(T)) },
		toV1: func(object Object) (Object, error) { return object, nil },
	}
}

// own is the only version of a kind of dra-steward.io.
func own[T any, P pointer[T]]() form {
	f := stable[T, P]()
	f.group, f.name = v1alpha1.Group, v1alpha1.GroupVersion().Version
	return f
}

func converted[In, Out any, PIn pointer[In], POut pointer[Out]](name string, convert func(*In, *Out, conversion.Scope) error) form {
	return form{
		group: resourcev1.GroupName, name: name,
		make: func() Object { return PIn(new(In)) },
		toV1: func(object Object) (Object, error) {
			out := new(Out)
			return POut(out), convert((*In)(object.(PIn)), out, nil)
		},
	}
}

// Kinds returns the kinds that [Decode] knows, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

func kindsOf(group string) []string {
	return slices.DeleteFunc(Kinds(), func(kind string) bool { return kinds[kind][0].group != group })
}

// Versions returns the versions of a kind that [Decode] knows, newest first; nil
// for other kinds.
func Versions(kind string) []Version {
	var versions []Version
	for _, form := range kinds[kind] {
		versions = append(versions, lifecycle(form))
	}
	return versions
}

// lifecycle reads what the generated code of the type knows.
func lifecycle(form form) Version {
	object := form.make()
	version := Version{Name: form.name, OffByDefault: form.group == resourcev1.GroupName && form.name != "v1"}
	release := func(major, minor int) string { return fmt.Sprintf("%d.%d", major, minor) }
	if it, ok := object.(interface{ APILifecycleIntroduced() (int, int) }); ok {
		version.Introduced = release(it.APILifecycleIntroduced())
	}
	if it, ok := object.(interface{ APILifecycleDeprecated() (int, int) }); ok {
		version.Deprecated = release(it.APILifecycleDeprecated())
	}
	if it, ok := object.(interface{ APILifecycleRemoved() (int, int) }); ok {
		version.Removed = release(it.APILifecycleRemoved())
	}
	return version
}

// Ours reports whether the document is of the group resource.k8s.io or dra-steward.io, and thus for
// [Decode]. StewardConfigurations are not: no API server stores them.
// ResourcePoolStatusRequests are questions to a controller rather than configuration,
// and not ours. A kind of ours with a missing or misspelt group is ours too, so that Decode
// reports it.
func (d *Document) Ours() bool {
	if d.inGroup() {
		return true
	}
	_, misspelt := d.misspelt()
	return misspelt
}

// inGroup reports whether the document is of one of the groups, as it is written.
func (d *Document) inGroup() bool {
	switch group, _, _ := strings.Cut(d.APIVersion, "/"); group {
	case resourcev1.GroupName:
		return d.Kind != "ResourcePoolStatusRequest"
	case v1alpha1.Group:
		return d.Kind != v1alpha1.ConfigurationKind
	default:
		return false
	}
}

// Version returns the version that the document is written in; false if [Decode]
// does not know it.
func (d *Document) Version() (Version, bool) {
	if !d.Ours() {
		return Version{}, false
	}
	if found, ok := d.form(); ok {
		return lifecycle(found), true
	}
	return Version{}, false
}

func (d *Document) form() (form, bool) {
	group, name, _ := strings.Cut(d.APIVersion, "/")
	for _, form := range kinds[d.Kind] {
		if form.group == group && form.name == name {
			return form, true
		}
	}
	return form{}, false
}
