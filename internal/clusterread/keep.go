package clusterread

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/internal/compact"
)

// A keeper makes the objects that a command reads smaller: what no command reads is dropped, and equal parts are
// shared.
type keeper struct{ shared compact.Shared }

// keep changes an object that nothing else uses yet.
func (k *keeper) keep(object runtime.Object) error {
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	about.SetManagedFields(nil) // often the largest part
	switch object := object.(type) {
	case *corev1.Pod:
		keepPod(&object.Spec)
		k.shared.Pod(object)
	case *resourceapi.ResourceClaim:
		k.shared.Claim(object)
	case *resourceapi.ResourceSlice:
		compact.Slice(object)
	}
	return nil
}

// keepPod drops what is mounted, probed and handed to containers as environment. The arguments of those of a release
// are read, and whether a pod has persistent volumes.
func keepPod(spec *corev1.PodSpec) {
	spec.EphemeralContainers = nil
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil && v.Ephemeral == nil })
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
}
