// Package extendedresource returns the device requests that the scheduler makes for the
// extended resources of a pod (KEP-5004).
package extendedresource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Request is a device request of the claim, and where the pod asks for it.
type Request struct {
	resourceapi.DeviceRequest
	Path *field.Path
}

// ImplicitClass returns the DeviceClass in the name of an implicit extended resource, empty
// for other names.
func ImplicitClass(resource corev1.ResourceName) string {
	class, implicit := strings.CutPrefix(string(resource), resourceapi.ResourceDeviceClassPrefix)
	if !implicit {
		return ""
	}
	return class
}

// Supersedes reports whether a DeviceClass is used for an extended resource in place of
// another one with the same name: the class that was created later, or else comes first by
// name.
func Supersedes(class, other *resourceapi.DeviceClass) bool {
	if !class.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return other.CreationTimestamp.Before(&class.CreationTimestamp)
	}
	return class.Name < other.Name
}

// Requests returns the requests for a pod, in the order of their names. classOf returns the
// DeviceClass of an extended resource, empty for none.
func Requests(pod *corev1.Pod, classOf func(resource corev1.ResourceName) string) []Request {
	containers := all(pod)
	classes := map[corev1.ResourceName]string{}
	for _, c := range containers {
		for name := range c.requests {
			if class := classOf(name); class != "" {
				classes[name] = class
			}
		}
	}
	var requests []Request
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		requests = append(requests, requestsFor(containers, name, classes[name])...)
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.Name, b.Name) })
	return requests
}

// container is what one container of a pod requests.
type container struct {
	// name is the prefix of the names of its requests.
	name     string
	requests corev1.ResourceList
	path     *field.Path
	// shortLived containers, the init containers that are no sidecars, use the devices of
	// the containers after them.
	shortLived bool
}

// all returns the containers of a pod, and the pod itself if it requests something.
func all(pod *corev1.Pod) (containers []container) {
	add := func(c corev1.Container, path *field.Path, shortLived bool) {
		containers = append(containers, container{
			fmt.Sprintf("container-%d", len(containers)), c.Resources.Requests, path.Child("resources", "requests"), shortLived,
		})
	}
	spec := field.NewPath("spec")
	for i, c := range pod.Spec.InitContainers {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		add(c, spec.Child("initContainers").Index(i), !sidecar)
	}
	for i, c := range pod.Spec.Containers {
		add(c, spec.Child("containers").Index(i), false)
	}
	if r := pod.Spec.Resources; r != nil {
		containers = append(containers, container{"pod", r.Requests, spec.Child("resources", "requests"), false})
	}
	return containers
}

// requestsFor returns the requests for one extended resource: one for each container, and
// the largest that an init container needs beyond those.
func requestsFor(containers []container, name corev1.ResourceName, class string) (requests []Request) {
	counts := make([]int64, len(containers)) // of those that run with the others
	for i, c := range containers {
		if n := c.count(name); n > 0 && !c.shortLived {
			counts[i] = n
			requests = append(requests, c.request(name, class, n))
		}
	}
	var most Request
	for i, c := range containers {
		if !c.shortLived {
			continue
		}
		missing := c.count(name)
		for _, reusable := range counts[i:] {
			missing -= reusable
		}
		if missing > 0 && (most.Exactly == nil || missing > most.Exactly.Count) {
			most = c.request(name, class, missing)
		}
	}
	if most.Exactly != nil {
		requests = append(requests, most)
	}
	return requests
}

func (c container) count(name corev1.ResourceName) int64 {
	quantity := c.requests[name]
	n, _ := quantity.AsInt64()
	return max(n, 0)
}

func (c container) request(name corev1.ResourceName, class string, count int64) Request {
	index := slices.Index(slices.Sorted(maps.Keys(c.requests)), name)
	return Request{
		DeviceRequest: resourceapi.DeviceRequest{
			Name: fmt.Sprintf("%s-request-%d", c.name, index),
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
			},
		},
		Path: c.path.Key(string(name)),
	}
}
