package devicedrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// errNotServed: the API server serves no version of DeviceTaintRule.
var errNotServed = errors.New("DeviceTaintRules are not served by this API server (resource.k8s.io/v1 is since 1.37; v1beta2 and v1alpha3 are off by default)")

// ruleWriter writes DeviceTaintRules in the newest version that is served. The versions
// differ only in their name.
type ruleWriter struct {
	client dynamic.Interface
	// last is the version that worked last.
	last atomic.Pointer[string]
}

// try calls f with the versions, first the one that worked last, until one is served. With
// created, not found can only mean the version.
func (w *ruleWriter) try(f func(version string, client dynamic.ResourceInterface) error, created bool) error {
	versions := []string{"v1", "v1beta2", "v1alpha3"}
	if last := w.last.Load(); last != nil {
		versions = slices.Insert(slices.DeleteFunc(versions, func(v string) bool { return v == *last }), 0, *last)
	}
	for _, version := range versions {
		resource := schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"}
		err := f(version, w.client.Resource(resource))
		if !apierrors.IsNotFound(err) {
			w.last.Store(&version)
			return err
		}
	}
	if created {
		return errNotServed
	}
	return nil // it is gone
}

// create creates a rule; an existing one is kept.
func (w *ruleWriter) create(ctx context.Context, rule *resourceapi.DeviceTaintRule) error {
	return w.try(func(version string, client dynamic.ResourceInterface) error {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: fields}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: resourceapi.GroupName, Version: version, Kind: "DeviceTaintRule"})
		unstructured.RemoveNestedField(object.Object, "status")
		_, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: ownclient.DrainManager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}, true)
}

// correct writes the spec of a rule, if it is the rule that was read. The API server sets the time
// of the taint again, so that the scheduler has time to observe it.
func (w *ruleWriter) correct(ctx context.Context, rule *resourceapi.DeviceTaintRule) error {
	taint := rule.Spec.Taint
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": rule.UID, "resourceVersion": rule.ResourceVersion, "labels": rule.Labels, "annotations": rule.Annotations},
		"spec": map[string]any{"deviceSelector": rule.Spec.DeviceSelector, "taint": map[string]any{
			"key": taint.Key, "value": taint.Value, "effect": taint.Effect, "timeAdded": nil}},
	})
	if err != nil {
		return err
	}
	return w.try(func(_ string, client dynamic.ResourceInterface) error {
		_, err := client.Patch(ctx, rule.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: ownclient.DrainManager})
		if apierrors.IsConflict(err) {
			return nil // it has changed since; we look again
		}
		return err
	}, false)
}

// remove deletes a rule, if it is the rule that was read.
func (w *ruleWriter) remove(ctx context.Context, rule *resourceapi.DeviceTaintRule) error {
	return w.try(func(_ string, client dynamic.ResourceInterface) error {
		err := client.Delete(ctx, rule.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(rule.UID))})
		if apierrors.IsConflict(err) {
			return nil
		}
		return err
	}, false)
}

// named says of which rule an error speaks.
func named(rule *resourceapi.DeviceTaintRule, what string, err error) error {
	if err == nil || errors.Is(err, errNotServed) {
		return err
	}
	return fmt.Errorf("%s DeviceTaintRule %s: %w", what, rule.Name, err)
}
