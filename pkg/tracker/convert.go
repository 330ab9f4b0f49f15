package tracker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// ruleVersions are the versions of DeviceTaintRule, newest first. They differ in
// nothing but their name: each is read as v1.
func ruleVersions() []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		all = append(all, schema.GroupVersionResource{Group: resourceapi.GroupName, Version: version, Resource: "devicetaintrules"})
	}
	return all
}

// patchVersions are the versions of ResourceSlicePatch.
func patchVersions() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)}
}

// convertingClient reads a kind in the first version that the API server has, as *T.
type convertingClient[T any] struct {
	client    dynamic.Interface
	resources []schema.GroupVersionResource
	last      atomic.Int32 // index of the version that worked last
}

func (c *convertingClient[T]) listWatch() *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}
}

// try calls f with the versions, first the one that worked last, until one is there.
func (c *convertingClient[T]) try(f func(dynamic.ResourceInterface) error) (err error) {
	last := int(c.last.Load())
	order := slices.Concat(c.resources[last:last+1], c.resources[:last], c.resources[last+1:])
	for _, resource := range order {
		if err = f(c.client.Resource(resource)); !apierrors.IsNotFound(err) {
			c.last.Store(int32(slices.Index(c.resources, resource)))
			return err
		}
	}
	return err
}

func (c *convertingClient[T]) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	result := &corev1.List{}
	err := c.try(func(client dynamic.ResourceInterface) error {
		list, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		result.ListMeta = metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount()}
		result.Items = make([]runtime.RawExtension, 0, len(list.Items))
		for i := range list.Items {
			object, err := convert[T](&list.Items[i])
			if err != nil {
				return err
			}
			result.Items = append(result.Items, runtime.RawExtension{Object: object})
		}
		return nil
	})
	return result, err
}

func (c *convertingClient[T]) watch(ctx context.Context, options metav1.ListOptions) (result watch.Interface, err error) {
	err = c.try(func(client dynamic.ResourceInterface) error {
		result, err = client.Watch(ctx, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	return watch.Filter(result, func(event watch.Event) (watch.Event, bool) {
		if object, ok := event.Object.(*unstructured.Unstructured); ok {
			converted, err := convert[T](object)
			if err != nil {
				status := apierrors.NewInternalError(err).Status()
				return watch.Event{Type: watch.Error, Object: &status}, true
			}
			event.Object = converted
		}
		return event, true
	}), nil
}

// convert reads fields as *T.
func convert[T any](object *unstructured.Unstructured) (runtime.Object, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
		return nil, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	result, ok := any(out).(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API type", out)
	}
	return result, nil
}
