package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
)

// maxHappened is how many events of an object a page shows.
const maxHappened = 20

// eventLog are the Kubernetes events of an object, the newest first.
type eventLog struct {
	Rows []eventRow
	// More is how many older events there are.
	More int
	// Error is why there are none.
	Error string
	// Asked is true if events could be asked for.
	Asked bool
}

// An eventRow is an event.
type eventRow struct {
	Type, Reason, Message, From string
	// About is the object, such as the pod of a finding, Node the node whose agent reports it.
	Kind, Namespace, About, Node string
	// Count is how often it has happened, First and Last when.
	Count       int
	First, Last time.Time
}

// happenedTo reads the events of an object.
func (s *Server) happenedTo(ctx context.Context, namespace, kind, name string) eventLog {
	h := s.eventsOf(ctx, namespace, kind, name)
	h.cut(maxHappened)
	return h
}

// eventsOf reads all events of an object.
func (s *Server) eventsOf(ctx context.Context, namespace, kind, name string) (h eventLog) {
	if s.options.Events == nil {
		return h
	}
	h.Asked = true
	all, err := s.options.Events(ctx, namespace, kind, name)
	switch {
	case apierrors.IsForbidden(err):
		h.Error = fmt.Sprintf("You are not allowed to list the events of namespace %s.", namespace)
	case err != nil:
		h.Error = "The events cannot be read: " + err.Error()
	default:
		h.Rows = eventRows(all)
	}
	return h
}

// cut leaves at most so many rows.
func (l *eventLog) cut(rows int) {
	l.More = max(0, len(l.Rows)-rows)
	l.Rows = l.Rows[:len(l.Rows)-l.More]
}

// maxHolders is for how many pods of a device findings are looked for.
const maxHolders = 8

// found are the findings of the agent of a node about the pods that hold a device: their events,
// the newest first.
func (s *Server) found(ctx context.Context, holders []fleet.Holder) (h eventLog) {
	if s.options.Events == nil || len(s.options.Findings) == 0 {
		return h
	}
	h.Asked = true
	asked := 0
	var missing []string
	for _, holder := range holders {
		for _, pod := range holder.Pods {
			if asked == maxHolders {
				missing = append(missing, fmt.Sprintf("Only the first %d pods were asked for.", maxHolders))
				break
			}
			asked++
			one := s.eventsOf(ctx, holder.Namespace, "Pod", pod)
			if one.Error != "" { // likewise for its other pods
				missing = append(missing, one.Error)
				break
			}
			h.Rows = append(h.Rows, slices.DeleteFunc(one.Rows, func(e eventRow) bool { return !slices.Contains(s.options.Findings, e.Reason) })...)
		}
	}
	h.Error = strings.Join(slices.Compact(missing), " ")
	slices.SortStableFunc(h.Rows, newestFirst)
	h.cut(maxHappened)
	return h
}

// eventRows are events, the newest first.
func eventRows(all []*corev1.Event) (rows []eventRow) {
	for _, e := range all {
		row := eventRow{Type: e.Type, Reason: e.Reason, Message: e.Message, From: cmp.Or(e.ReportingController, e.Source.Component),
			Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, About: e.InvolvedObject.Name, Node: e.Source.Host, Count: max(1, int(e.Count)), First: e.FirstTimestamp.Time, Last: e.LastTimestamp.Time}
		if series := e.Series; series != nil {
			row.Count, row.Last = max(1, int(series.Count)), series.LastObservedTime.Time
		}
		for _, other := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
			if row.First.IsZero() {
				row.First = other
			}
			if row.Last.IsZero() {
				row.Last = other
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, newestFirst)
	return rows
}

func newestFirst(a, b eventRow) int {
	return cmp.Or(b.Last.Compare(a.Last), b.First.Compare(a.First), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}
