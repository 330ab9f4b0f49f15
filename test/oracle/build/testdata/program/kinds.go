package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/registry/rest"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // registers the types
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
)

// kind is how the API server treats the objects of one kind.
type kind struct {
	resource string
	create   rest.RESTCreateStrategy
	update   rest.RESTUpdateStrategy
	// status is nil for kinds without that subresource.
	status rest.RESTUpdateStrategy
}

// kinds are the kinds that are judged, by name.
var kinds = func() map[string]kind {
	claim, claimStatus := claimStrategies(namespaces{})
	template := resourceclaimtemplate.NewStrategy(namespaces{})
	return map[string]kind{
		"ResourceSlice":         {"resourceslices", resourceslice.Strategy, resourceslice.Strategy, nil},
		"ResourceClaim":         {"resourceclaims", claim.(rest.RESTCreateStrategy), claim, claimStatus},
		"ResourceClaimTemplate": {"resourceclaimtemplates", template, template, nil},
		"DeviceClass":           {"deviceclasses", deviceclass.Strategy, deviceclass.Strategy, nil},
		"DeviceTaintRule":       {"devicetaintrules", taintRule, taintRule, taintRuleStatus},
	}
}()

var taintRule = devicetaintrule.Strategy

// namespaces answers for every namespace with the labels that the context says.
type namespaces struct{ typedcorev1.NamespaceInterface }

type adminKey struct{}

func (namespaces) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ctx.Value(adminKey{}) == true {
		namespace.Labels = map[string]string{"resource.kubernetes.io/admin-access": "true"}
	}
	return namespace, nil
}

var (
	serializer = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory,
		legacyscheme.Scheme, legacyscheme.Scheme, jsonserializer.SerializerOptions{})
	decoder = legacyscheme.Codecs.DecoderToVersion(serializer, resource.SchemeGroupVersion)
)

// decode reads an object as the API server does, with its defaults, into the
// internal type.
func decode(data []byte) (runtime.Object, schema.GroupVersionKind, error) {
	gvk, err := jsonserializer.DefaultMetaFactory.Interpret(data)
	if err != nil {
		return nil, schema.GroupVersionKind{}, err
	}
	if known := newest(*gvk); known != *gvk {
		if data, err = withVersion(data, known); err != nil {
			return nil, known, err
		}
		*gvk = known
	}
	obj, _, err := decoder.Decode(data, nil, nil)
	return obj, *gvk, err
}

// newest returns gvk, or for a kind without v1 its newest version.
func newest(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	if gvk.Version != "v1" || gvk.Group != resource.GroupName {
		return gvk
	}
	for _, version := range []string{"v1", "v1beta2", "v1beta1", "v1alpha3"} {
		known := gvk.GroupKind().WithVersion(version)
		if legacyscheme.Scheme.Recognizes(known) {
			return known
		}
	}
	return gvk
}

func withVersion(data []byte, gvk schema.GroupVersionKind) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"] = fmt.Appendf(nil, "%q", gvk.GroupVersion().String())
	return json.Marshal(fields)
}

// encode writes an internal object in a version.
func encode(obj runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	return runtime.Encode(legacyscheme.Codecs.EncoderForVersion(serializer, gvk.GroupVersion()), obj)
}
