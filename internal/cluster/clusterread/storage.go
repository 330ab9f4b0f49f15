package clusterread

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// readStorage reads volumes if pods use them, and namespaces if affinity names their labels. A list that is forbidden is a note.
func (s *Snapshot) readStorage(ctx context.Context, r *reading) (err error) {
	if slices.ContainsFunc(s.Pods, selectsNamespaces) {
		s.Namespaces, err = list[*corev1.Namespace](ctx, r, "namespaces", r.client.CoreV1().Namespaces())
		if err := s.denied(err, "namespaces cannot be read: affinity to pods of namespaces with labels is unknown"); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return len(pod.Spec.Volumes) > 0 && pod.Status.Phase != corev1.PodSucceeded
	}) {
		return nil
	}
	s.Storage.VolumeClaims, err = list[*corev1.PersistentVolumeClaim](ctx, r, "PersistentVolumeClaims", r.client.CoreV1().PersistentVolumeClaims(""))
	if err := s.denied(err, "PersistentVolumeClaims cannot be read: where pods with volumes land is unknown"); err != nil {
		return err
	}
	s.Storage.Volumes, err = list[*corev1.PersistentVolume](ctx, r, "PersistentVolumes", r.client.CoreV1().PersistentVolumes())
	if err := s.denied(err, "PersistentVolumes cannot be read: where pods with volumes land is unknown"); err != nil {
		return err
	}
	s.Storage.CSINodes, err = list[*storagev1.CSINode](ctx, r, "CSINodes", r.client.StorageV1().CSINodes())
	return s.denied(err, "CSINodes cannot be read: the limits of CSI volumes are unknown")
}

// selectsNamespaces reports whether the affinity of a pod names labels of namespaces.
func selectsNamespaces(pod *corev1.Pod) bool {
	named := func(terms []corev1.PodAffinityTerm) bool {
		return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
			return t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0
		})
	}
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && named(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) ||
		a.PodAntiAffinity != nil && named(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
}

// addStorage keeps a document about volumes, or a namespace.
func (s *Snapshot) addStorage(document *manifest.Document) []manifest.Problem {
	switch document.APIVersion + " " + document.Kind {
	case "v1 Namespace":
		return decodeTo(document, &s.Namespaces)
	case "v1 PersistentVolumeClaim":
		return decodeTo(document, &s.Storage.VolumeClaims)
	case "v1 PersistentVolume":
		return decodeTo(document, &s.Storage.Volumes)
	case "storage.k8s.io/v1 CSINode":
		return decodeTo(document, &s.Storage.CSINodes)
	}
	return nil
}

// decodeTo adds the object of a document.
func decodeTo[T any, P interface {
	*T
	metav1.Object
}](document *manifest.Document, to *[]P) []manifest.Problem {
	object := P(new(T))
	*to = append(*to, object)
	return manifest.DecodeInto(document, object)
}
