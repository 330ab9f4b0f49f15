// Package ownclient makes clients for the types of dra-steward.io.
package ownclient

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

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
