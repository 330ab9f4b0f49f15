package patches_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/charts"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/test/envtest"
)

var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m, envtest.Options{Kubectl: true, DeviceTaintRules: true}, func(c *envtest.Cluster) { cluster = c }))
}

// clients write as the administrator.
type clients struct {
	kubernetes.Interface
	rules, patches, crds dynamic.ResourceInterface
}

func newClients(t *testing.T) clients {
	t.Helper()
	config := rest.CopyConfig(cluster.Config())
	config.QPS, config.Burst = 2000, 4000
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients{
		Interface: typed,
		rules:     untyped.Resource(cluster.DeviceTaintRules()),
		patches:   untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)),
		crds:      untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}),
	}
}

// installPatches installs the type as the chart has it.
func (c clients) installPatches(t *testing.T) {
	t.Helper()
	dir := path.Join(charts.Name, "files", "crds")
	entries, err := charts.FS.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := charts.FS.ReadFile(path.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := c.crds.Create(t.Context(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	eventually(t, "the type is served", func(ctx context.Context) (bool, error) {
		_, err := c.patches.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// clean removes what a test leaves.
func (c clients) clean(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := c.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	for _, kind := range []dynamic.ResourceInterface{c.rules, c.patches} {
		if err := kind.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// started runs a tracker until the test ends.
func started(t *testing.T, config *rest.Config, options tracker.Options) *tracker.Tracker {
	t.Helper()
	sources, err := tracker.NewSources(config, options.Logger)
	if err != nil {
		t.Fatal(err)
	}
	options.Sources = sources
	tracked := tracker.New(options)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := tracked.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return tracked
}

func synced(t *testing.T, tracked *tracker.Tracker) {
	t.Helper()
	select {
	case <-tracked.HasSyncedChecker().Done():
	case <-time.After(2 * time.Minute):
		t.Fatalf("not synced: %v", tracked.Ready())
	}
}

// condition returns the reason of a kind.
func condition(tracked *tracker.Tracker, kind tracker.Kind) tracker.Condition {
	for _, c := range tracked.Conditions() {
		if c.Kind == kind {
			return c
		}
	}
	return tracker.Condition{}
}

func slice(i int, version int, devices int) *resourceapi.ResourceSlice {
	all := true
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-" + strconv.Itoa(i)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: fmt.Sprintf("driver-%d.example.com", i%4), AllNodes: &all,
			Pool: resourceapi.ResourcePool{Name: "pool-" + strconv.Itoa(i%200), Generation: 1, ResourceSliceCount: 5},
		},
	}
	model := "model-" + strconv.Itoa(version)
	for d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("device-%d-%d", i/200, d),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
		})
	}
	return s
}

// rule makes a DeviceTaintRule of the version that is served.
func rule(name, value string, selector map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"deviceSelector": selector,
			"taint":          map[string]any{"key": "example.com/" + name, "value": value, "effect": "NoSchedule"},
		},
	}}
}

// patch makes a ResourceSlicePatch that sets example.com/color.
func patch(name, color string, filter map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.ResourceSlicePatchKind,
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"devices": map[string]any{
			"filter": filter, "attributes": map[string]any{"example.com/color": map[string]any{"string": color}},
		}},
	}}
}
