package release_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestLifecycle goes the whole way: the previous chart, patches stored, an upgrade to
// this chart, other values, back again, and uninstall.
func TestLifecycle(t *testing.T) {
	h := newHelm(t, "lifecycle")
	h.runHooks()
	earlier := with(nil)
	delete(earlier["certificates"].(values), "mode") // that chart has no modes
	h.must(h.install(load(t, previous), earlier))
	kept := h.storePatches()
	if _, err := h.install(current(t), with(nil)); err == nil || !strings.Contains(err.Error(), "cannot re-use a name") {
		t.Errorf("a second install of the same name: got %v", err)
	}

	upgraded, err := h.upgrade(current(t), with(nil))
	h.must(nil, err)
	h.wantAsRendered(upgraded.Manifest)
	h.wantPatches(kept)
	before := h.versions(upgraded.Manifest)

	again, err := h.upgrade(current(t), with(nil))
	h.must(nil, err)
	if after := h.versions(again.Manifest); !maps.Equal(before, after) {
		t.Errorf("an upgrade that changes nothing wrote\n%v\nwhere was\n%v", after, before)
	}

	changed, err := h.upgrade(current(t), with(values{"limits": values{"devicesPerSlice": 10}, "replicaCount": 3,
		"webhooks": values{"claims": values{"failurePolicy": "Fail"}}}))
	h.must(nil, err)
	h.wantAsRendered(changed.Manifest)
	if config := h.configuration(); !strings.Contains(config, "devicesPerSlice: 10") {
		t.Errorf("the configuration lacks the new limit:\n%s", config)
	}

	h.must(nil, h.rollback(upgraded.Version))
	h.wantAsRendered(upgraded.Manifest)
	if config := h.configuration(); strings.Contains(config, "devicesPerSlice") {
		t.Errorf("the rollback left the limit in the configuration:\n%s", config)
	}
	h.must(nil, h.rollback(1))
	h.wantPatches(kept)
	h.must(h.upgrade(current(t), with(nil)))

	h.must(h.uninstall())
	h.wantGone(upgraded.Manifest, "CustomResourceDefinition")
	h.wantPatches(kept)
	h.reinstall(kept)
}

// reinstall takes over the types that an uninstall has left, and takes them away when it
// is asked to.
func (h helm) reinstall(kept map[string]string) {
	h.t.Helper()
	installed, err := h.install(current(h.t), with(values{"crds": values{"keep": false}}))
	h.must(nil, err)
	h.wantPatches(kept)
	h.must(h.uninstall())
	h.wantGone(installed.Manifest, "")
}

// storePatches stores the patches of the documentation and returns what came of them, by
// name.
func (h helm) storePatches() map[string]string {
	h.t.Helper()
	kept := map[string]string{}
	text, err := os.ReadFile("../../../docs/patches/memory.yaml")
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range 3 {
		patch := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &patch.Object); err != nil {
			h.t.Fatal(err)
		}
		patch.SetName(fmt.Sprintf("%s-%d", patch.GetName(), i))
		eventually(h.t, "the type is served", func(ctx context.Context) (bool, error) {
			return h.client.Create(ctx, patch) == nil, nil
		})
		kept[patch.GetName()] = identity(h.t, patch)
	}
	return kept
}

// identity is what an upgrade must not change of an object.
func identity(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	spec, err := yaml.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(object.GetUID()) + "\n" + string(spec)
}

func (h helm) wantPatches(kept map[string]string) {
	h.t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion("dra-steward.io/v1alpha1")
	all.SetKind("ResourceSlicePatchList")
	eventually(h.t, "the type is served", func(ctx context.Context) (bool, error) {
		return h.client.List(ctx, all) == nil, nil
	})
	got := map[string]string{}
	for _, patch := range all.Items {
		got[patch.GetName()] = identity(h.t, &patch)
	}
	if !maps.Equal(got, kept) {
		h.t.Errorf("patches are\n%v\nwant\n%v", got, kept)
	}
}

// wantAsRendered compares every field of a manifest with what is stored: the server may
// add to it and change nothing.
func (h helm) wantAsRendered(manifest string) {
	h.t.Helper()
	for _, want := range objects(h.t, manifest) {
		got := h.stored(want)
		if got == nil {
			h.t.Errorf("%s %s is not there", want.GetKind(), want.GetName())
			continue
		}
		if missing := lacks(got.Object, want.Object, want.GetKind()+" "+want.GetName()); missing != "" {
			h.t.Error(missing)
		}
	}
}

// lacks names the first field of want that got does not have like this.
func lacks(got, want any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		of, _ := got.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if missing := lacks(of[key], want[key], at+"."+key); missing != "" {
				return missing
			}
		}
	case []any:
		of, _ := got.([]any)
		if len(of) != len(want) {
			return fmt.Sprintf("%s: %d items, want %d", at, len(of), len(want))
		}
		for i := range want {
			if missing := lacks(of[i], want[i], fmt.Sprintf("%s[%d]", at, i)); missing != "" {
				return missing
			}
		}
	case nil: // absent and null are one
	default:
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("%s: %v, want %v", at, got, want)
		}
	}
	return ""
}

// wantGone fails for objects of a manifest that are there, but for those of one kind.
func (h helm) wantGone(manifest, but string) {
	h.t.Helper()
	for _, object := range objects(h.t, manifest) {
		if object.GetKind() == but {
			continue
		}
		h.wantDeleted(object)
	}
}

// versions are the generations of the objects of a manifest, and the versions of those
// that have no generation and that only helm writes.
func (h helm) versions(manifest string) map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, object := range objects(h.t, manifest) {
		got := h.stored(object)
		version := fmt.Sprint(got.GetGeneration())
		if got.GetGeneration() == 0 {
			version = got.GetResourceVersion()
		}
		all[got.GetKind()+" "+got.GetName()] = version
	}
	return all
}

// configuration is the configuration file that is mounted into the webhook.
func (h helm) configuration() string {
	h.t.Helper()
	config := &corev1.ConfigMap{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, config); err != nil {
		h.t.Fatal(err)
	}
	return config.Data["config.yaml"]
}
