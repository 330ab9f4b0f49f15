package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/console"
	"github.com/dra-steward/dra-steward/internal/fleet"
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
