package release_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const firstVersion, nextVersion = "v1alpha1", "v1beta1"

// ownTypes are the resources of our group with their kinds.
func ownTypes() map[string]string {
	return map[string]string{
		v1alpha1.DeviceDrainResource: v1alpha1.DeviceDrainKind, v1alpha1.DeviceReactionResource: v1alpha1.DeviceReactionKind,
		v1alpha1.DeviceRollResource: v1alpha1.DeviceRollKind, v1alpha1.ResourceSlicePatchResource: v1alpha1.ResourceSlicePatchKind,
	}
}

// TestSecondVersion rehearses the way from v1alpha1 to v1beta1 and back: crds.v1beta1 served, then
// stored, the objects stored again, and all of it in the other direction. The objects have every
// field that the types have. In each step they are the same in both versions, but for the name of the version.
func TestSecondVersion(t *testing.T) {
	h := newHelm(t, "versions")
	mode := func(mode string) values {
		return with(values{"crds": values{"keep": false, "v1beta1": mode}, "uninstall": values{"enabled": false}})
	}
	h.must(h.install(current(t), mode("")))
	v := versions{helm: h}
	v.establish([]string{firstVersion})
	v.storeAllFields()
	want := v.read(firstVersion)

	for _, step := range []struct {
		mode, stored string
		served       []string
	}{
		{"served", firstVersion, []string{firstVersion, nextVersion}},
		{"stored", nextVersion, []string{firstVersion, nextVersion}},
		{"served", firstVersion, []string{firstVersion, nextVersion}},
		{"", firstVersion, []string{firstVersion}},
	} {
		h.must(h.upgrade(current(t), mode(step.mode)))
		v.establish(step.served)
		for _, version := range step.served {
			v.compare(step.mode+" "+version, want, v.read(version))
		}
		v.storeAgain(step.served[len(step.served)-1], step.stored)
		for _, version := range step.served {
			v.compare(step.mode+" "+version+", stored again", want, v.read(version))
		}
	}
	h.must(h.uninstall())
	h.wantTypesGone()
}

type versions struct{ helm }

func (v versions) resource(resource, version string) dynamic.ResourceInterface {
	v.t.Helper()
	c, err := dynamic.NewForConfig(cluster.Config())
	v.must(nil, err)
	gv := v1alpha1.GroupVersion()
	gv.Version = version
	return c.Resource(gv.WithResource(resource))
}

func (v versions) crd(resource string) *apiextensionsv1.CustomResourceDefinition {
	v.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	v.must(nil, v.client.Get(v.t.Context(), client.ObjectKey{Name: resource + "." + v1alpha1.Group}, object))
	data, err := json.Marshal(object)
	v.must(nil, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	v.must(nil, json.Unmarshal(data, crd))
	return crd
}

// storeAllFields puts an object of each type into etcd that has every field of the schema: the
// rules of the schema, which forbid some together, are for writes through the API server.
func (v versions) storeAllFields() {
	v.t.Helper()
	for resource, kind := range ownTypes() {
		schema := v.crd(resource).Spec.Versions[0].Schema.OpenAPIV3Schema
		object := map[string]any{
			"apiVersion": v1alpha1.APIVersion, "kind": kind,
			"metadata": map[string]any{"name": "all-fields", "uid": "00000000-0000-4000-8000-000000000001", "generation": 1, "creationTimestamp": time.Now().UTC().Format(time.RFC3339)},
		}
		for _, part := range []string{"spec", "status"} {
			if property, has := schema.Properties[part]; has {
				object[part] = filled(property)
			}
		}
		value, err := json.Marshal(object)
		v.must(nil, err)
		v.etcd("put", map[string][]byte{"key": []byte(key(resource)), "value": value})
	}
}

func key(resource string) string {
	return "/registry/" + v1alpha1.Group + "/" + resource + "/all-fields"
}

// filled returns a value with every field of a schema.
func filled(schema apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(schema.Enum) > 0:
		var value any
		_ = json.Unmarshal(schema.Enum[len(schema.Enum)-1].Raw, &value) // the API server has read it
		return value
	case schema.XIntOrString, schema.Type == "integer":
		return 7
	case schema.Type == "boolean":
		return true
	case schema.Type == "array":
		return []any{filled(*schema.Items.Schema)}
	case schema.Type == "object" && schema.AdditionalProperties != nil:
		return map[string]any{"example.com/key": filled(*schema.AdditionalProperties.Schema)}
	case schema.Type == "object":
		object := map[string]any{}
		for name, property := range schema.Properties {
			object[name] = filled(property)
		}
		return object
	case schema.Format == "date-time":
		return "2026-11-24T07:00:00Z"
	case schema.Format == "duration":
		return "1h0m0s"
	}
	return "text"
}

// establish waits until the versions are served, and no others.
func (v versions) establish(served []string) {
	v.t.Helper()
	for resource := range ownTypes() {
		for _, version := range []string{firstVersion, nextVersion} {
			eventually(v.t, fmt.Sprintf("%s are served in %q", resource, served), func(ctx context.Context) (bool, error) {
				_, err := v.resource(resource, version).List(ctx, metav1.ListOptions{})
				return (err == nil) == slices.Contains(served, version), nil
			})
		}
	}
}

// read returns the objects of a version, without what names the version or the write.
func (v versions) read(version string) map[string]string {
	v.t.Helper()
	found := map[string]string{}
	for resource := range ownTypes() {
		object, err := v.resource(resource, version).Get(v.t.Context(), "all-fields", metav1.GetOptions{})
		v.must(nil, err)
		if want := v1alpha1.Group + "/" + version; object.GetAPIVersion() != want {
			v.t.Errorf("%s is read as %s, want %s", resource, object.GetAPIVersion(), want)
		}
		object.SetAPIVersion("")
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		data, err := json.Marshal(object)
		v.must(nil, err)
		found[resource] = string(data)
	}
	return found
}

func (v versions) compare(step string, want, got map[string]string) {
	v.t.Helper()
	for _, resource := range slices.Sorted(maps.Keys(want)) {
		if got[resource] != want[resource] {
			v.t.Errorf("%s: %s: got\n%s\nwant\n%s", step, resource, got[resource], want[resource])
		}
	}
}

// storeAgain writes each object as it is until etcd has it in a version, and drops the other version
// from those that the type says are stored.
func (v versions) storeAgain(through, stored string) {
	v.t.Helper()
	for resource := range ownTypes() {
		eventually(v.t, fmt.Sprintf("%s are stored as %s", resource, stored), func(ctx context.Context) (bool, error) {
			object, err := v.resource(resource, through).Get(ctx, "all-fields", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if _, err := v.resource(resource, through).Update(ctx, object, metav1.UpdateOptions{}); err != nil {
				return false, err
			}
			return strings.Contains(v.value(resource), fmt.Sprintf(`"apiVersion":%q`, v1alpha1.Group+"/"+stored)), nil
		})
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		crd.SetName(resource + "." + v1alpha1.Group)
		patch := fmt.Appendf(nil, `{"status": {"storedVersions": [%q]}}`, stored)
		v.must(nil, v.client.Status().Patch(v.t.Context(), crd, client.RawPatch(types.MergePatchType, patch)))
	}
}

// value is what etcd has of an object.
func (v versions) value(resource string) string {
	v.t.Helper()
	var answer struct{ Kvs []struct{ Value string } }
	v.must(nil, json.Unmarshal(v.etcd("range", map[string][]byte{"key": []byte(key(resource))}), &answer))
	if len(answer.Kvs) != 1 {
		v.t.Fatalf("etcd has %d values of %s", len(answer.Kvs), resource)
	}
	value, err := base64.StdEncoding.DecodeString(answer.Kvs[0].Value)
	v.must(nil, err)
	return string(value)
}

func (v versions) etcd(call string, request map[string][]byte) []byte {
	v.t.Helper()
	body, err := json.Marshal(request)
	v.must(nil, err)
	post, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, cluster.Etcd()+"/v3/kv/"+call, bytes.NewReader(body))
	v.must(nil, err)
	response, err := http.DefaultClient.Do(post)
	v.must(nil, err)
	defer response.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	v.must(nil, err)
	if response.StatusCode != http.StatusOK {
		v.t.Fatalf("etcd: %s: %s", response.Status, &answer)
	}
	return answer.Bytes()
}
