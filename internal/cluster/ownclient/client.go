// Package ownclient makes clients for the types of dra-steward.io.
package ownclient

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// New returns a client for the types of api/v1alpha1.
func New(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	version := v1alpha1.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", v1alpha1.Group, err)
	}
	return client, nil
}

// A Kind reads and writes the objects of one kind.
type Kind[T Object, L runtime.Object] struct {
	*gentype.ClientWithList[T, L]
	client         rest.Interface
	resource, kind string
	newObject      func() T
}

// An Object is of a type of api/v1alpha1.
type Object interface {
	runtime.Object
	metav1.Object
}

// Drains reads and writes DeviceDrains.
func Drains(client rest.Interface) Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList] {
	return of(client, v1alpha1.DeviceDrainResource, v1alpha1.DeviceDrainKind,
		func() *v1alpha1.DeviceDrain { return &v1alpha1.DeviceDrain{} }, func() *v1alpha1.DeviceDrainList { return &v1alpha1.DeviceDrainList{} })
}

// Reactions reads and writes DeviceReactions.
func Reactions(client rest.Interface) Kind[*v1alpha1.DeviceReaction, *v1alpha1.DeviceReactionList] {
	return of(client, v1alpha1.DeviceReactionResource, v1alpha1.DeviceReactionKind,
		func() *v1alpha1.DeviceReaction { return &v1alpha1.DeviceReaction{} }, func() *v1alpha1.DeviceReactionList { return &v1alpha1.DeviceReactionList{} })
}

// Rolls reads and writes DeviceRolls.
func Rolls(client rest.Interface) Kind[*v1alpha1.DeviceRoll, *v1alpha1.DeviceRollList] {
	return of(client, v1alpha1.DeviceRollResource, v1alpha1.DeviceRollKind,
		func() *v1alpha1.DeviceRoll { return &v1alpha1.DeviceRoll{} }, func() *v1alpha1.DeviceRollList { return &v1alpha1.DeviceRollList{} })
}

func of[T Object, L runtime.Object](client rest.Interface, resource, kind string, newObject func() T, newList func() L) Kind[T, L] {
	return Kind[T, L]{
		gentype.NewClientWithList(resource, client, metav1.ParameterCodec, metav1.NamespaceNone, newObject, newList),
		client, resource, kind, newObject,
	}
}

// Informer is an informer of all objects; the caller runs it.
func (k Kind[T, L]) Informer() cache.SharedIndexInformer {
	lw := cache.NewListWatchFromClient(k.client, k.resource, metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformerWithOptions(lw, k.newObject(), cache.SharedIndexInformerOptions{ObjectDescription: k.kind})
}

// DryRun is what a write has in its options that asks the API server only whether it would.
func DryRun(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}
