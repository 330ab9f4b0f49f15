package clusterread

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// Waiting are the objects of a namespace, apart from claims, that pods wait for.
type Waiting struct {
	// Events are those about claims that cannot be created.
	Events    []*corev1.Event
	Templates []*resourceapi.ResourceClaimTemplate
	Groups    []*schedulingapi.PodGroup
	// NoGroups is true if PodGroups could not be read, NoTemplates if templates could not, PartialPods if the pods of other
	// namespaces could not.
	NoGroups, NoTemplates, PartialPods bool
}

// events selects those about claims: of kube-controller-manager, which cannot create them, and of kubelets, which cannot
// prepare their devices.
func events() []string {
	return []string{"reason=FailedResourceClaimCreation", "reason=FailedPrepareDynamicResources"}
}

// readWaiting reads what the pods of a namespace wait for. A list that is forbidden is a
// note.
func (s *Snapshot) readWaiting(ctx context.Context, r *reading, namespace string) (err error) {
	for _, of := range events() {
		found, err := list[*corev1.Event](ctx, r, "events with "+of, selected[*corev1.EventList]{resource: r.client.CoreV1().Events(namespace), fields: of})
		if apierrors.IsForbidden(err) {
			s.Notes = append(s.Notes, "events cannot be read: the reason why a claim is not created or prepared is unknown")
			break
		}
		if err != nil {
			return err
		}
		s.Events = append(s.Events, found...)
	}
	if err := s.readOthers(ctx, r); err != nil {
		return err
	}
	s.Templates, err = list[*resourceapi.ResourceClaimTemplate](ctx, r, "ResourceClaimTemplates", r.client.ResourceV1().ResourceClaimTemplates(namespace))
	s.NoTemplates = apierrors.IsForbidden(err)
	if err := s.denied(err, "ResourceClaimTemplates cannot be read"); err != nil {
		return err
	}
	return s.readGroups(ctx, r, namespace)
}

// readOthers reads the pods of all namespaces if one waits for a node: they use the nodes, too.
func (s *Snapshot) readOthers(ctx context.Context, r *reading) error {
	if !slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil }) {
		return nil
	}
	all, err := list[*corev1.Pod](ctx, r, "pods of all namespaces", r.pods(""))
	switch {
	case apierrors.IsForbidden(err):
		s.PartialPods = true
	case err != nil:
		return err
	default:
		s.Pods = all
	}
	return s.readStorage(ctx, r)
}

// readAllPods reads what decides where pods of all namespaces land. A list that is forbidden is
// a note.
func (s *Snapshot) readAllPods(ctx context.Context, r *reading) (err error) {
	s.Pods, err = list[*corev1.Pod](ctx, r, "pods", r.pods(""))
	s.NoPods = apierrors.IsForbidden(err)
	if err := s.denied(err, "pods of all namespaces cannot be read: which pods leave, and what they request, is unknown"); err != nil {
		return err
	}
	s.Templates, err = list[*resourceapi.ResourceClaimTemplate](ctx, r, "ResourceClaimTemplates", r.client.ResourceV1().ResourceClaimTemplates(""))
	if err := s.denied(err, "ResourceClaimTemplates of all namespaces cannot be read: the claims of new pods are unknown"); err != nil {
		return err
	}
	if err := s.readStorage(ctx, r); err != nil {
		return err
	}
	return s.readGroups(ctx, r, "")
}

// readGroups reads the PodGroups if a pod is in one.
func (s *Snapshot) readGroups(ctx context.Context, r *reading, namespace string) (err error) {
	if !slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Spec.SchedulingGroup != nil }) {
		return nil
	}
	s.Groups, err = list[*schedulingapi.PodGroup](ctx, r, "PodGroups", r.client.SchedulingV1beta1().PodGroups(namespace))
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		s.NoGroups = true
		s.Notes = append(s.Notes, "PodGroups cannot be read: the number of pods that must be scheduled together is unknown")
		return nil
	}
	return err
}

// addWaiting keeps a document that pods wait for; ok is false for others.
func (s *Snapshot) addWaiting(document *manifest.Document) (problems []manifest.Problem, ok bool) {
	switch {
	case document.APIVersion == "v1" && document.Kind == "Event":
		s.Events = append(s.Events, &corev1.Event{})
		return manifest.DecodeInto(document, s.Events[len(s.Events)-1]), true
	case document.APIVersion == "scheduling.k8s.io/v1beta1" && document.Kind == "PodGroup":
		s.Groups = append(s.Groups, &schedulingapi.PodGroup{})
		return manifest.DecodeInto(document, s.Groups[len(s.Groups)-1]), true
	}
	return nil, false
}
