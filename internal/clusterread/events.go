package clusterread

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxEvents is how many events are read at a time: an object has fewer, since the API server drops
	// them after an hour.
	maxEvents = 500
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

// EventsOfFiles are the events about an object among those of files.
func (l *Snapshot) EventsOfFiles(namespace, kind, name string) (all []*corev1.Event) {
	for _, event := range l.Events {
		about := event.InvolvedObject
		if about.Kind == kind && about.Name == name && about.Namespace == namespace {
			all = append(all, event)
		}
	}
	return all
}
