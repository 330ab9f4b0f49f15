package manager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
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
