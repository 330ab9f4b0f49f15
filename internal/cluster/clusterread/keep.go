package clusterread

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A keeper makes the objects that a command reads smaller: what no command reads is dropped, and equal parts are
// shared.
type keeper struct {
	shared compact.Shared
	// indexed is true if claims and pods are read for a [usage.Index] and [health.Records] alone.
	indexed bool
	// unread reports whether the attributes and capacities of the devices of a slice have no reader; nil for never.
	unread func(*resourceapi.ResourceSlice) bool
}

// keep changes an object that nothing else uses yet.
func (k *keeper) keep(object runtime.Object) error {
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	about.SetManagedFields(nil) // often the largest part
	switch object := object.(type) {
	case *corev1.Pod:
		if k.indexed {
			trim(object)
		}
		keepPod(&object.Spec)
		k.shared.Pod(object)
	case *resourceapi.ResourceClaim:
		if k.indexed {
			trim(object)
		}
		k.shared.Claim(object)
	case *resourceapi.ResourceSlice:
		if k.unread != nil && k.unread(object) {
			for i := range object.Spec.Devices {
				object.Spec.Devices[i].Attributes, object.Spec.Devices[i].Capacity = nil, nil
			}
		}
		compact.Slice(object)
	}
	return nil
}

// trim keeps of a claim or pod what an index reads, and the health of devices.
func trim[T any](object *T) {
	if kept, err := health.Keep(usage.Trim)(object); err == nil {
		*object = *kept.(*T)
	}
}

// unpatched reports whether a slice is as its driver published it, and stays so with patches.
func unpatched(slice *resourceapi.ResourceSlice, patches []any) bool {
	// Of a slice that has patched values, an annotation has those of the driver.
	return len(slice.Annotations) == 0 && !slices.ContainsFunc(patches, func(one any) bool {
		patch, is := one.(*v1alpha1.ResourceSlicePatch)
		if !is || patch.Spec.Devices.Filter == nil {
			return true
		}
		on := patch.Spec.Devices.Filter
		return ptr.Deref(on.Driver, slice.Spec.Driver) == slice.Spec.Driver && ptr.Deref(on.Pool, slice.Spec.Pool.Name) == slice.Spec.Pool.Name
	})
}

// keepPod drops what is mounted, probed and handed to containers as environment. The arguments of those of a release
// are read, and the volumes that decide where a pod lands.
func keepPod(spec *corev1.PodSpec) {
	spec.EphemeralContainers = nil
	spec.Volumes = placement.KeepVolumes(spec.Volumes)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
}
