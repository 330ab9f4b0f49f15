package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// findingsPage is the page of findings of a cluster with these events.
func findingsPage(t *testing.T, events []*corev1.Event, more bool, err error) string {
	t.Helper()
	s, made := console.New(console.Options{Cluster: "a", Now: clock, Findings: []string{"CDIUnresolvable"},
		NodeEvents: func(context.Context) ([]*corev1.Event, bool, error) { return events, more, err }})
	if made != nil {
		t.Fatal(made)
	}
	s.Show(&fleet.Fleet{})
	g := console.NewGate(port)
	handler := s.Handler(g)
	w := answer(handler, "GET", "/findings", enter(t, g, handler))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return html.UnescapeString(w.Body.String())
}

// TestFindings: the page has the findings of all nodes, the newest first and at most 200, and the nodes with the most
// findings before the others.
func TestFindings(t *testing.T) {
	var events []*corev1.Event
	for i := range 240 {
		one := event(fmt.Sprintf("pod-%03d", i), "CDIUnresolvable", i)
		one.Source.Host = fmt.Sprintf("node-%d", min(i%12, 10))
		events = append(events, one, event("other", "Pulled", i))
	}
	body := findingsPage(t, events, true, nil)
	for _, want := range []string{"pod-000", "pod-199", "and 40 older findings", "There are more events than were read"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, unwanted := range []string{"pod-200", "Pulled"} {
		if strings.Contains(body, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
	if most, other := strings.Index(body, "node%3Anode-10"), strings.Index(body, "node%3Anode-0"); most < 0 || other < most {
		t.Errorf("node-10, which has most findings, is at %d, node-0 at %d", most, other)
	}
}

// TestFindingsHostile: strings of the cluster do not leave their places.
func TestFindingsHostile(t *testing.T) {
	const text = `"><script>alert(1)</script>` + "\u202e\x1b[31m"
	one := event(text, "CDIUnresolvable", 1)
	one.Source.Host = text
	s, err := console.New(console.Options{Cluster: "a", Now: clock, Findings: []string{"CDIUnresolvable"},
		NodeEvents: func(context.Context) ([]*corev1.Event, bool, error) { return []*corev1.Event{one}, false, nil }})
	if err != nil {
		t.Fatal(err)
	}
	s.Show(&fleet.Fleet{})
	g := console.NewGate(port)
	handler := s.Handler(g)
	body := answer(handler, "GET", "/findings", enter(t, g, handler)).Body.String()
	if strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") || !strings.Contains(body, "CDIUnresolvable") {
		t.Errorf("not escaped:\n%s", body)
	}
}

func TestFindingsCannotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	for want, err := range map[string]error{
		"You are not allowed to list the events of all namespaces.": forbidden, "The events cannot be read: lost": errors.New("lost"), "There are none.": nil,
	} {
		if body := findingsPage(t, nil, false, err); !strings.Contains(body, want) {
			t.Errorf("the page does not say %q:\n%s", want, body)
		}
	}
}
