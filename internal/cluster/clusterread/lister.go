package clusterread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/existing"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// Lister reads what a cluster has stored.
type Lister struct {
	client    rest.Interface
	discovery discovery.DiscoveryInterface
	namespace string
	// Rules is the version of DeviceTaintRules that is served, empty for none.
	Rules string
	// Progress shows what is read; nil shows nothing.
	Progress *cmdutil.Progress
	// watched is where a watcher keeps the objects.
	watched *reading
	checked bool
	// around are the objects of the lists that Surroundings has read.
	around map[Listing][]json.RawMessage
}

// NewLister returns a lister of one namespace, or of all if that is empty.
func NewLister(config *rest.Config, namespace string) (*Lister, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // one list after the other
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return &Lister{client: client.CoreV1().RESTClient(), discovery: client.Discovery(), namespace: namespace}, nil
}

// Minor finds out what the server is, and which taint rules it serves.
func (l *Lister) Minor() (minor int, _ error) {
	info, err := l.discovery.ServerVersion()
	if err != nil {
		return 0, fmt.Errorf("cannot ask the API server for its version: %w", err)
	}
	if v, err := version.ParseGeneric(info.GitVersion); err == nil {
		minor = int(v.Minor())
	}
	for _, v := range []string{"v1", "v1beta2", "v1alpha3"} {
		served, err := l.discovery.ServerResourcesForGroupVersion(resourceapi.GroupName + "/" + v)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("cannot ask the API server for the resources of %s/%s: %w", resourceapi.GroupName, v, err)
		}
		for _, resource := range served.APIResources {
			if resource.Name == "devicetaintrules" {
				l.Rules = v
				return minor, nil
			}
		}
	}
	return minor, nil
}

// A Listing names a resource to list.
type Listing struct {
	group, version, resource, Kind string
	Namespaced                     bool
}

// GVK returns the group, version and kind of the listed objects.
func (l Listing) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: l.group, Version: l.version, Kind: l.Kind}
}

func (l Listing) path(namespace string) string {
	path := "/api/v1"
	if l.group != "" {
		path = "/apis/" + l.group + "/" + l.version
	}
	if l.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + l.resource
}

// DRAListing returns the Listing of a resource of resource.k8s.io/v1.
func DRAListing(resource, kind string, namespaced bool) Listing {
	return Listing{resourceapi.GroupName, "v1", resource, kind, namespaced}
}

// page is a part of a list.
type page struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// get reads one page.
func (l *Lister) get(ctx context.Context, listing Listing, limit int, next string) (p page, _ error) {
	request := l.client.Get().AbsPath(listing.path(l.namespace)).SetHeader("Accept", "application/json").Param("limit", fmt.Sprint(limit))
	if next != "" {
		request.Param("continue", next)
	}
	data, err := request.Do(ctx).Raw()
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

// Each calls visit for every object of a list. If the continue token expires, the list continues
// with the current objects.
func (l *Lister) Each(ctx context.Context, listing Listing, visit func([]byte) error) error {
	if l.watched != nil {
		return l.watched.each(ctx, listing, visit)
	}
	visited, one := 0, visit
	visit = func(object []byte) error {
		visited++
		l.Progress.Say("reading %s: %d", listing.resource, visited)
		return one(object)
	}
	l.Progress.Say("reading %s: %d", listing.resource, visited)
	if read, is := l.around[listing]; is {
		for _, object := range read {
			if err := visit(object); err != nil {
				return err
			}
		}
		return nil
	}
	for next := ""; ; {
		p, err := l.get(ctx, listing, pageSize, next)
		if status := apierrors.APIStatus(nil); apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" && status.Status().Continue != next {
			next = status.Status().Continue
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", listing.resource, err)
		}
		for _, item := range p.Items {
			if err := visit(item); err != nil {
				return err
			}
		}
		if next = p.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// check finds out whether the lists may be read, so that all rights that are missing are
// named at once.
func (l *Lister) check(ctx context.Context, all []Listing) error {
	if l.checked {
		return nil
	}
	var missing []string
	for _, listing := range all {
		_, err := l.get(ctx, listing, 1, "")
		switch {
		case apierrors.IsForbidden(err):
			missing = append(missing, strings.TrimSuffix(listing.resource+"."+listing.group, "."))
		case err != nil:
			return fmt.Errorf("cannot list %s: %w", listing.resource, err)
		}
	}
	if l.checked = len(missing) == 0; l.checked {
		return nil
	}
	hint := "grant the verb list"
	if l.namespace == "" {
		hint += ", or use --namespace to audit one namespace"
	}
	return fmt.Errorf("you are not allowed to list %s: %s", strings.Join(missing, ", "), hint)
}

// Surroundings reads the objects that rules and policies read in addition to the checked ones,
// and returns the lists of all. What it has read, which is in no namespace, is not read again.
// Classes and slices are those of view, unless it is nil.
func (l *Lister) Surroundings(ctx context.Context, view *tracker.Snapshot) ([]Listing, *existing.Objects, error) {
	all := []Listing{DRAListing("deviceclasses", "DeviceClass", false), DRAListing("resourceslices", "ResourceSlice", false), DRAListing("resourceclaims", "ResourceClaim", true),
		DRAListing("resourceclaimtemplates", "ResourceClaimTemplate", true), {"", "v1", "namespaces", "Namespace", false}}
	if l.Rules != "" {
		all = append(all, Listing{resourceapi.GroupName, l.Rules, "devicetaintrules", "DeviceTaintRule", false})
	}
	if err := l.check(ctx, all); err != nil {
		return nil, nil, err
	}
	l.around = nil
	around, kept := &existing.Objects{Complete: true}, map[Listing][]json.RawMessage{}
	addView(around, view)
	for _, listing := range all {
		if listing.Namespaced || view != nil && slices.Contains([]tracker.Kind{tracker.SliceKind, tracker.ClassKind}, tracker.Kind(listing.Kind)) {
			continue
		}
		var read []json.RawMessage
		err := l.Each(ctx, listing, func(data []byte) error {
			read = append(read, data)
			return addStored(around, listing.GVK(), data)
		})
		if err != nil {
			return nil, nil, err
		}
		if l.watched == nil { // a watcher keeps them itself, as they are now
			kept[listing] = read
		}
	}
	l.around = kept
	return all, around, nil
}

// addView adds the classes and slices of a view, which can be nil.
func addView(around *existing.Objects, view *tracker.Snapshot) {
	if view == nil {
		return
	}
	for class := range view.Classes() {
		around.Add(class)
	}
	for slice := range view.StoredSlices() {
		around.Add(slice)
	}
}

// addStored adds an object that the API server returns.
func addStored(around *existing.Objects, kind schema.GroupVersionKind, data []byte) error {
	var object metav1.Object
	switch kind.Kind {
	case "Namespace":
		object = new(corev1.Namespace)
	case "DeviceClass":
		object = new(resourceapi.DeviceClass)
	case "DeviceTaintRule":
		object = new(resourceapi.DeviceTaintRule)
	case "ResourceSlice":
		object = new(resourceapi.ResourceSlice)
	default:
		return nil
	}
	if err := quantity.Unmarshal(data, object); err != nil {
		return fmt.Errorf("%s: %w", kind.Kind, err)
	}
	object.SetManagedFields(nil)
	if slice, is := object.(*resourceapi.ResourceSlice); is {
		compact.Slice(slice)
	}
	around.Add(object)
	return nil
}
