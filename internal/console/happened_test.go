package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// event is one about the pod of hostile, so many minutes ago.
func event(text, reason string, minutes int) *corev1.Event {
	at := metav1.NewTime(clock().Add(-time.Duration(minutes) * time.Minute))
	return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: text, Name: text}, Type: text, Reason: reason, Message: text,
		Source: corev1.EventSource{Component: text}, LastTimestamp: at, Count: 3}
}

// serveEvents serves hostile with events.
func serveEvents(t *testing.T, text string, events []*corev1.Event, err error) func(string) string {
	t.Helper()
	f, built := fleet.Build(t.Context(), hostile(text), nil)
	if built != nil {
		t.Fatal(built)
	}
	s, made := console.New(console.Options{Cluster: "a", Now: clock, Findings: []string{"CDIUnresolvable"},
		Events: func(context.Context, string, string, string) ([]*corev1.Event, error) { return events, err }})
	if made != nil {
		t.Fatal(made)
	}
	s.Show(f)
	g := console.NewGate(port)
	handler := s.Handler(g)
	user := enter(t, g, handler)
	return func(target string) string {
		w := answer(handler, "GET", target, user)
		if w.Code != 200 {
			t.Fatalf("%.80s: %d %.300s", target, w.Code, w.Body)
		}
		return w.Body.String()
	}
}

// TestEventsOfObjects: the pages of a claim and a pod show their events, the newest first and at most 20, and
// that of a device the findings among those of its pods.
func TestEventsOfObjects(t *testing.T) {
	var events []*corev1.Event
	for i := range 30 {
		events = append(events, event("a", fmt.Sprintf("Reason-%02d", i), i))
	}
	events = append(events, event("a", "CDIUnresolvable", 3))
	get := serveEvents(t, "a", events, nil)
	for _, target := range []string{"/claim?namespace=a&name=a", "/pod?namespace=a&name=a"} {
		body := get(target)
		first, second := strings.Index(body, "Reason-00"), strings.Index(body, "Reason-01")
		if first < 0 || second < first || strings.Contains(body, "Reason-20") || !strings.Contains(body, "and 11 older events") {
			t.Errorf("%s: the events are not the newest 20:\n%s", target, body)
		}
	}
	if body := get("/device?driver=a&pool=a&device=a"); !strings.Contains(body, "Findings of its node") || !strings.Contains(body, "CDIUnresolvable") || strings.Contains(body, "Reason-") {
		t.Errorf("the device does not have its finding:\n%s", body)
	}
}

// TestEventsForbidden: a user who is not allowed to list events reads that, and others why.
func TestEventsForbidden(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	for want, err := range map[string]error{"You are not allowed to list the events of namespace a.": forbidden, "The events cannot be read: lost": errors.New("lost")} {
		get := serveEvents(t, "a", nil, err)
		for _, target := range []string{"/claim?namespace=a&name=a", "/pod?namespace=a&name=a", "/device?driver=a&pool=a&device=a"} {
			if body := html.UnescapeString(get(target)); !strings.Contains(body, want) {
				t.Errorf("%s: does not say %q", target, want)
			}
		}
	}
}

// TestFindingsOfDevices: a page shows findings that are older than many other events of the pod, the
// newest first and at most 20; it asks for the events of at most eight pods, and says so. Where the
// reader is not allowed to list the events of a namespace, it shows the other findings, and says so.
func TestFindingsOfDevices(t *testing.T) {
	in := hostile("a")
	held := in.Claims[0]
	for i := range 10 {
		held.Status.ReservedFor = append(held.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: fmt.Sprintf("pod-%d", i)})
	}
	other := held.DeepCopy()
	other.Namespace = "hidden"
	for name, claims := range map[string][]*resourceapi.ResourceClaim{"many pods": {held}, "a hidden namespace": {other, held}} {
		f, err := fleet.Build(t.Context(), fleet.Input{View: in.View, Claims: claims, Pods: in.Pods, Nodes: in.Nodes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		s, err := console.New(console.Options{Cluster: "a", Now: clock, Findings: []string{"CDIUnresolvable"}, Events: func(_ context.Context, namespace, _, name string) (all []*corev1.Event, err error) {
			if asked++; namespace == "hidden" {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
			}
			for i := range 30 {
				all = append(all, event("a", "Pulled", i))
			}
			for i := range 4 {
				all = append(all, event(name, "CDIUnresolvable", 40+i))
			}
			return all, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.Show(f)
		g := console.NewGate(port)
		handler := s.Handler(g)
		body := html.UnescapeString(answer(handler, "GET", "/device?driver=a&pool=a&device=a", enter(t, g, handler)).Body.String())
		if asked != 8 {
			t.Errorf("%s: the events of %d pods were asked for", name, asked)
		}
		says := []string{"and 12 older findings", "Only the first 8 pods were asked for."}
		if name == "a hidden namespace" {
			says = []string{"and 8 older findings", "You are not allowed to list the events of namespace hidden. Only the first 8 pods were asked for."}
		}
		if shown := strings.Count(body, ">CDIUnresolvable<"); shown != 20 {
			t.Errorf("%s: %d findings:\n%s", name, shown, body)
		}
		for _, want := range says {
			if !strings.Contains(body, want) {
				t.Errorf("%s: does not say %q:\n%s", name, want, body)
			}
		}
	}
}

// TestHostileEvents: texts of events are escaped and cut.
func TestHostileEvents(t *testing.T) {
	count := -1
	for _, text := range append([]string{"harmless"}, evil()...) {
		if len(text) > 1000 {
			continue // the gate refuses the address
		}
		get := serveEvents(t, text, []*corev1.Event{event(text, text, 1), event(text, "CDIUnresolvable", 2), event(strings.Repeat(text, 500), text, 2)}, nil)
		body := get(pagesOf(text)[4]) + get(pagesOf(text)[5]) + get(pagesOf(text)[3])
		tags := strings.Count(body, "<")
		if count < 0 {
			count = tags
		}
		if tags != count || strings.ContainsAny(body, "\u202e\u2028\x00\x1b") {
			t.Errorf("%.40q: %d tags, want %d", text, tags, count)
		}
	}
}

func clock() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// clockOf tells a time that a test changes.
func clockOf(at *time.Time) func() time.Time { return func() time.Time { return *at } }
