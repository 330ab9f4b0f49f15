package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/report"
)

// TestManyClaims: an export has pages of 500 claims, those that wait first, and says how many it
// leaves out. Its pages link to no page that it has not written.
func TestManyClaims(t *testing.T) {
	var in fleet.Input
	for i := range 620 {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("claim-%03d", i)}}
		if i < 150 {
			c.Status.Allocation = &resourceapi.AllocationResult{}
		}
		in.Claims = append(in.Claims, c)
	}
	f, err := fleet.Build(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	written, err := newServer(t, f).Export(t.Context(), console.ExportOptions{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "claim*"))
	if err != nil || len(files) != 500 || written.LeftClaims != 120 {
		t.Errorf("%d pages of claims, %d are left out, %v", len(files), written.LeftClaims, err)
	}
	all, err := filepath.Glob(filepath.Join(folder, "*.html"))
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	for _, name := range all {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range strings.Split(string(page), `href="`)[1:] {
			link, _, _ = strings.Cut(link, `"`)
			if file, _, _ := strings.Cut(link, "#"); file != "" && !strings.Contains(file, "?") {
				if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
					t.Fatalf("%s links to %s: %v", filepath.Base(name), link, err)
				}
			}
		}
	}
}

// TestExportRecords: the files have the history, findings, events, policies and report of the pages, and
// no form.
func TestExportRecords(t *testing.T) {
	f, err := fleet.Build(t.Context(), hostile("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	record := &history.Record{Entries: []history.Entry{{Kind: history.Drain, Name: "drain-of-history", Begin: clock()}}}
	s, err := console.New(console.Options{Cluster: "a", Now: clock, Findings: []string{"ClaimNotPrepared"},
		Events: func(context.Context, string, string, string) ([]*corev1.Event, error) {
			return []*corev1.Event{event("message-of-event", "ClaimNotPrepared", 1)}, nil
		},
		History:  func(context.Context, v1alpha1.DeviceName) (*history.Record, error) { return record, nil },
		Report:   func(context.Context) (report.Report, error) { return reported("text-of-report"), nil },
		Policies: func(context.Context) (report.Policies, error) { return policiesOf("text-of-policies", 7), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Show(f)
	folder := t.TempDir()
	if _, err := s.Export(t.Context(), console.ExportOptions{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string][]string{
		"device-*.html": {"drain drain-of-history created", "message-of-event"}, "claim-*.html": {"message-of-event"}, "pod-*.html": {"message-of-event"},
		"policies.html": {"text-of-policies", ">7<", `href="report.html"`}, "report.html": {"text-of-report", "Made 20", `href="policies.html"`},
	} {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		text, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range want {
			if !strings.Contains(string(text), one) {
				t.Errorf("%s has no %q:\n%s", pattern, one, text)
			}
		}
		for _, live := range []string{"<form", "opened first", "no events"} {
			if strings.Contains(string(text), live) {
				t.Errorf("%s has %q", pattern, live)
			}
		}
	}
}
