package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/report"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// reported is a report with a text everywhere.
func reported(text string) report.Report {
	group := report.Group{Objects: 1, Seen: 1, Codes: []report.Code{{Code: text, Objects: []string{text}, Seen: 1}}}
	evicted := []report.Eviction{{Pod: text, Reason: text}}
	today := report.Step{Mode: v1alpha1.Mode(text), Refused: group}
	return report.Report{Objects: 1, Replicas: 1, Steps: []report.Step{today, {Mode: v1alpha1.Mode(text), Refused: group, Warned: group, Defaulted: group, Evicted: evicted}},
		Holders: []report.Holder{{Namespace: text, Driver: text}}, Taints: []report.Taint{{Source: tracker.Source{Name: text}, Taint: text}}, Notes: []string{text}}
}

// policiesOf are policies with a text everywhere.
func policiesOf(text string, found int) report.Policies {
	return report.Policies{Mode: v1alpha1.Mode(text), Revision: text, Summary: text, Notes: []string{text}, Events: []*corev1.Event{event(text, text, 1)},
		Seen: report.Seen{Replicas: 2, Findings: map[string]int{text: found}, Defaults: map[string]int{text: 1}},
		All:  []report.Policy{{Code: text, Title: text, Severity: text, Mode: policy.Mode(text), Own: policy.Deny, Parameters: []report.Parameter{{Name: text, Value: text, Set: true}}, Namespaces: []string{text}}}}
}

// serveOptions serves nothing but what the options have.
func serveOptions(t *testing.T, o console.Options) func(string) string {
	t.Helper()
	o.Cluster = "a"
	if o.Now == nil {
		o.Now = clock
	}
	s, err := console.New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	handler := s.Handler(g)
	user := enter(t, g, handler)
	return func(target string) string { return answer(handler, "GET", target, user).Body.String() }
}

// TestHostileReport: texts of the report and of policies are escaped and cut.
func TestHostileReport(t *testing.T) {
	tags := -1
	for _, text := range append([]string{"harmless"}, evil()...) {
		get := serveOptions(t, console.Options{Report: func(context.Context) (report.Report, error) { return reported(text), nil },
			Policies: func(context.Context) (report.Policies, error) { return policiesOf(text, 1), nil }})
		body := get("/report?make=yes") + get("/policies")
		if tags < 0 {
			tags = strings.Count(body, "<")
		}
		if got := strings.Count(body, "<"); got != tags || strings.ContainsAny(body, "\u202e\u2028\x00\x1b") || len(body) > 200_000 {
			t.Errorf("%.40q: %d tags, want %d; %d bytes", text, got, tags, len(body))
		}
	}
}

// TestReportOnce: of many pages that ask for a report at a time one makes it, and an error is shown.
func TestReportOnce(t *testing.T) {
	var running, made atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	get := serveOptions(t, console.Options{Report: func(ctx context.Context) (report.Report, error) {
		if _, bounded := ctx.Deadline(); !bounded || running.Add(1) > 1 {
			t.Error("two reports are made at a time, or one without an end")
		}
		defer running.Add(-1)
		if made.Add(1) == 1 {
			close(begun)
		}
		<-release
		return report.Report{}, errors.New("the list is lost")
	}})
	if body := get("/report"); !strings.Contains(body, "Make the report") || made.Load() != 0 {
		t.Error("a report is made without being asked for")
	}
	var pages sync.WaitGroup
	for range 3 {
		pages.Go(func() {
			if body := html.UnescapeString(get("/report?make=yes")); !strings.Contains(body, "the list is lost") {
				t.Errorf("no error: %s", body)
			}
		})
	}
	<-begun
	close(release)
	pages.Wait()
	if n := made.Load(); n < 1 || n > 3 {
		t.Errorf("%d reports", n)
	}
}

// TestReportEnds: a report that never comes ends after two minutes; the page does not wait for it.
func TestReportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		get := serveOptions(t, console.Options{Now: time.Now, Report: func(ctx context.Context) (report.Report, error) {
			<-ctx.Done()
			return report.Report{}, fmt.Errorf("no answer of the API server: %w", ctx.Err())
		}})
		body := get("/report?make=yes")
		if waited := time.Since(began); waited > 10*time.Second || strings.Contains(body, "no answer") {
			t.Errorf("the page waits for %s: %s", waited, body)
		}
		for time.Since(began) < 3*time.Minute && !strings.Contains(body, "no answer") {
			body = get("/report")
			<-time.After(time.Second)
		}
		if took := time.Since(began).Round(10 * time.Second); took != 2*time.Minute || !strings.Contains(body, "no answer of the API server: context deadline exceeded") {
			t.Errorf("after %s: %s", took, body)
		}
	})
}

// TestPoliciesSince: the page counts from when it was opened first.
func TestPoliciesSince(t *testing.T) {
	found, at := 10, clock()
	get := serveOptions(t, console.Options{Now: clockOf(&at), Policies: func(context.Context) (report.Policies, error) { return policiesOf("DRA-X-001", found), nil }})
	for _, step := range []struct{ found, new int }{{10, 0}, {13, 3}, {2, 2}} { // a replica starts again
		found = step.found
		body := get("/policies")
		want := `<td>DRA-X-001</td><td class="number">` + string(rune('0'+step.new)) + `</td><td class="number">`
		if !strings.Contains(body, want) {
			t.Errorf("no row %s in\n%s", want, body)
		}
		at = at.Add(60e9)
	}
}
