package clusterread

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// defaultThresholds are those of a command that cannot read others.
func defaultThresholds(why string) taints.Thresholds {
	return taints.Thresholds{Thresholds: guard.DefaultThresholds(), From: "default; " + why}
}

// DefaultRelease is the name and the namespace of a release, unless they are set.
const DefaultRelease = "dra-steward"

// Configuration reads the ConfigMap of a release with the default name, which the role of the chart
// for people on call names: they are not allowed to list ConfigMaps.
func Configuration(ctx context.Context, client kubernetes.Interface, namespace string) (*corev1.ConfigMap, error) {
	return client.CoreV1().ConfigMaps(namespace).Get(ctx, DefaultRelease, metav1.GetOptions{})
}

// file is the key of a ConfigMap with the configuration.
const file = "config.yaml"

// SiteThresholds are those of the release in the cluster, from the ConfigMap of its
// configuration, as far as the asker may read that.
func SiteThresholds(ctx context.Context, client kubernetes.Interface) taints.Thresholds {
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward", ResourceVersion: "0"})
	if apierrors.IsForbidden(err) {
		list = &corev1.ConfigMapList{}
		one, unread := Configuration(ctx, client, DefaultRelease)
		if err = unread; err == nil {
			list.Items = append(list.Items, *one)
		}
	}
	if err != nil {
		return defaultThresholds("the ConfigMap of the release cannot be read: " + err.Error())
	}
	var found []taints.Thresholds
	for i := range list.Items {
		text, has := list.Items[i].Data[file]
		if !has {
			continue
		}
		name := "ConfigMap " + list.Items[i].Namespace + "/" + list.Items[i].Name
		parsed, err := config.Parse(file, []byte(text))
		if err != nil {
			return defaultThresholds(name + " cannot be understood: " + err.Error())
		}
		found = append(found, taints.Thresholds{Thresholds: guard.Configured(parsed.StewardConfiguration), From: name})
	}
	switch len(found) {
	case 0:
		return defaultThresholds("no release found")
	case 1:
		return found[0]
	}
	return defaultThresholds(fmt.Sprintf("%d releases found", len(found)))
}

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
			return nil, "", fmt.Errorf("cannot ask the API server for the resources of %s/%s: %w", resourceapi.GroupName, version, err)
		}
		if list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }) {
			gvr := resourceapi.SchemeGroupVersion.WithResource("devicetaintrules").GroupResource().WithVersion(version)
			return client.Resource(gvr), version, nil
		}
	}
	return nil, "", ErrNoRules
}
