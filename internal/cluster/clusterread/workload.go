package clusterread

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// WorkloadKinds are the kinds of workloads, as messages list them.
const WorkloadKinds = "Pod, Deployment, ReplicaSet, StatefulSet, Job or CronJob"

// A Workload is a pod of a file, or a controller of pods.
type Workload struct {
	// Kind and Name are those of the object; a generated name is its prefix.
	Kind, Name string
	// Pod is one of its pods.
	Pod *corev1.Pod
	// Replicas is how many it creates.
	Replicas int
}

// String is such as "deployment team-a/train".
func (w Workload) String() string {
	return strings.ToLower(w.Kind) + " " + w.Pod.Namespace + "/" + w.Name
}

// Manifests are the workloads of a file, with their claims and templates.
type Manifests struct {
	Workloads []Workload
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
}

// ReadManifests reads a file. Objects without a namespace are in the given one.
func ReadManifests(streams cmdutil.Streams, file, namespace string) (*Manifests, error) {
	m := &Manifests{}
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(file) {
		if err != nil {
			return nil, err
		}
		for _, problem := range m.add(document, namespace) {
			if problem.Fatal() {
				return nil, fmt.Errorf("%s: %v", document.File, problem)
			}
			printable.Printf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	return m, nil
}

// add keeps what a document has.
func (m *Manifests) add(document *manifest.Document, namespace string) []manifest.Problem {
	if document.Ours() {
		object, problems := manifest.Decode(document)
		switch typed := object.(type) {
		case *resourceapi.ResourceClaim:
			typed.Namespace = cmp.Or(typed.Namespace, namespace)
			typed.Status = resourceapi.ResourceClaimStatus{}
			m.Claims = append(m.Claims, typed)
		case *resourceapi.ResourceClaimTemplate:
			typed.Namespace = cmp.Or(typed.Namespace, namespace)
			m.Templates = append(m.Templates, typed)
		}
		return problems
	}
	w, meta, problems := workloadOf(document)
	if w.Pod == nil {
		return nil
	}
	w.Kind, w.Name = document.Kind, cmp.Or(meta.Name, meta.GenerateName)
	w.Pod.Name, w.Pod.Namespace = meta.Name, cmp.Or(meta.Namespace, namespace)
	m.Workloads = append(m.Workloads, w)
	return problems
}

// workloadOf is the workload of a document, without a pod for other objects.
func workloadOf(document *manifest.Document) (Workload, metav1.ObjectMeta, []manifest.Problem) {
	switch document.APIVersion + " " + document.Kind {
	case "v1 Pod":
		pod, problems := podOf(document)
		pod.Status = corev1.PodStatus{}
		return Workload{Pod: pod, Replicas: 1}, pod.ObjectMeta, problems
	case "apps/v1 Deployment":
		o := &appsv1.Deployment{}
		return controllerOf(document, o, &o.ObjectMeta, &o.Spec.Template, &o.Spec.Replicas)
	case "apps/v1 ReplicaSet":
		o := &appsv1.ReplicaSet{}
		return controllerOf(document, o, &o.ObjectMeta, &o.Spec.Template, &o.Spec.Replicas)
	case "apps/v1 StatefulSet":
		o := &appsv1.StatefulSet{}
		return controllerOf(document, o, &o.ObjectMeta, &o.Spec.Template, &o.Spec.Replicas)
	case "batch/v1 Job":
		o := &batchv1.Job{}
		return controllerOf(document, o, &o.ObjectMeta, &o.Spec.Template, &o.Spec.Parallelism)
	case "batch/v1 CronJob":
		o := &batchv1.CronJob{}
		return controllerOf(document, o, &o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template, &o.Spec.JobTemplate.Spec.Parallelism)
	}
	return Workload{}, metav1.ObjectMeta{}, nil
}

// controllerOf decodes a controller of pods; the other arguments are its fields.
func controllerOf(document *manifest.Document, object any, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, replicas **int32) (Workload, metav1.ObjectMeta, []manifest.Problem) {
	problems := manifest.DecodeInto(document, object)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec}
	setDefaults(&pod.Spec)
	return Workload{Pod: pod, Replicas: int(ptr.Deref(*replicas, 1))}, *meta, problems
}

// User is a pod that uses a claim, or one like a template, and nothing else.
func User(namespace, name string, reference corev1.PodResourceClaim) *corev1.Pod {
	reference.Name = "devices"
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c"}}, ResourceClaims: []corev1.PodResourceClaim{reference}}}
}

const (
	// maxEvents is how many events are read at a time: an object has fewer, since the API server drops
	// them after an hour.
	maxEvents = 500
	// eventPages is how often that is done for the events of a component.
	eventPages = 10
	// eventsTime bounds the reading of events.
	eventsTime = 5 * time.Second
)

// EventsAbout reads the events about an object, at most 500, in no order. They are not watched.
func EventsAbout(ctx context.Context, client kubernetes.Interface, namespace, kind, name string) ([]*corev1.Event, error) {
	return eventsOf(ctx, client, namespace, fields.Set{"involvedObject.kind": kind, "involvedObject.name": name})
}

// EventsBecause reads the events of a namespace with a reason, at most 500, in no order.
func EventsBecause(ctx context.Context, client kubernetes.Interface, namespace, reason string) ([]*corev1.Event, error) {
	return eventsOf(ctx, client, namespace, fields.Set{"reason": reason})
}

func eventsOf(ctx context.Context, client kubernetes.Interface, namespace string, selected fields.Set) ([]*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	found, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.SelectorFromSet(selected).String(), Limit: maxEvents})
	if err != nil {
		return nil, err
	}
	all := make([]*corev1.Event, 0, len(found.Items))
	for i := range found.Items {
		all = append(all, &found.Items[i])
	}
	return all, nil
}

// EventsOf reads the events of a component in all namespaces, at most 5,000, in no order, and reports whether there
// are more.
func EventsOf(ctx context.Context, client kubernetes.Interface, component string) (all []*corev1.Event, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("source", component).String(), Limit: maxEvents}
	for range eventPages {
		found, err := client.CoreV1().Events(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, false, err
		}
		for i := range found.Items {
			all = append(all, &found.Items[i])
		}
		if options.Continue = found.Continue; options.Continue == "" {
			return all, false, nil
		}
	}
	return all, true, nil
}

// EventsOfFiles are the events about an object among those of files.
func (s *Snapshot) EventsOfFiles(namespace, kind, name string) (all []*corev1.Event) {
	for _, event := range s.Events {
		about := event.InvolvedObject
		if about.Kind == kind && about.Name == name && about.Namespace == namespace {
			all = append(all, event)
		}
	}
	return all
}
