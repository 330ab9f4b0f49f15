package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"

	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/policies"
)

// TestSiteReload: a configuration that is wrong is in force never, and stops nothing; the last
// valid one stays.
func TestSiteReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{path: path, log: logr.Discard()}
	s.reload()
	put("limits: {tolerationsPerRequest: 99}")
	s.reload()
	if s.inForce.Load() != nil || s.ready() == nil {
		t.Error("a wrong configuration is in force")
	}
	put("limits: {tolerationsPerRequest: 5}")
	s.reload()
	valid := s.inForce.Load()
	if valid == nil || valid.Limits.TolerationsPerRequest != 5 {
		t.Fatalf("not in force: %+v", valid)
	}
	s.reload()
	put("limits: {tolerationsPerRequest: 99}")
	s.reload()
	if s.inForce.Load() != valid {
		t.Error("the last valid configuration does not stay in force")
	}
}

// TestSiteWithPolicies: a file that fits only policies that come later is in force together with them, and no empty
// configuration before.
func TestSiteWithPolicies(t *testing.T) {
	text, err := policies.Files.ReadFile("unknown-key/policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "items: {type: string}", "items: {type: [string, object]}", 1)
	files := func(more ...policy.Collection) policyload.Files {
		set, err := policy.Parse(t.Context(), append([]policy.Collection{policy.Library()}, more...)...)
		if err != nil {
			t.Fatal(err)
		}
		return policyload.Files{Set: set}
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"+
		"policies: {parameters: {DRA-TOL-008: {keys: [{key: example.com/a}]}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site{path: path, log: logr.Discard(), files: files()}
	s.reload()
	if err := s.usePolicies(files(), time.Now()); err == nil || s.inForce.Load() != nil {
		t.Errorf("a configuration is in force that no file holds: %v", err)
	}
	if err := s.usePolicies(files(policy.Collection{Name: "site", Files: fstest.MapFS{"a.rego": {Data: []byte(edited)}}}), time.Now()); err != nil || s.inForce.Load() == nil {
		t.Errorf("not in force: %v", err)
	}
}
