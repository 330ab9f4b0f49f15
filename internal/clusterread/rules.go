package clusterread

import (
	"errors"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// ErrNoRules says that the API server does not serve DeviceTaintRules.
var ErrNoRules = errors.New("the API server does not serve DeviceTaintRules: they need Kubernetes 1.37, or before that the feature gate DRADeviceTaintRules and --runtime-config")

// ServedRules returns a client of DeviceTaintRules in the newest version that is served, and
// that version.
func ServedRules(config *rest.Config) (dynamic.ResourceInterface, string, error) {
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, "", err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, "", err
	}
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		list, err := known.ServerResourcesForGroupVersion(resourceapi.GroupName + "/" + version)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, "", err
		}
		if list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }) {
			gvr := resourceapi.SchemeGroupVersion.WithResource("devicetaintrules").GroupResource().WithVersion(version)
			return client.Resource(gvr), version, nil
		}
	}
	return nil, "", ErrNoRules
}
