package policyload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// mounted is a folder as the kubelet mounts a ConfigMap with one policy.
func mounted(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	const policyText = `# METADATA
# title: Test
# description: Test.
# custom:
#   code: SITE-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.site

deny contains {"message": "forbidden"} if count(input.tolerations) > 100
`
	const data = "..2026_11_27_18_00_00.1"
	err := os.Mkdir(filepath.Join(folder, data), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, data, "site.rego"), []byte(policyText), 0o600)
	}
	if err == nil {
		err = os.Symlink(data, filepath.Join(folder, "..data"))
	}
	if err == nil {
		err = os.Symlink("..data/site.rego", filepath.Join(folder, "site.rego"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestMountedConfigMap: of the files that it has twice, those count that the links name.
func TestMountedConfigMap(t *testing.T) {
	folder := mounted(t)
	sources, err := Sources([]string{folder})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	if p, known := set.Policy("SITE-001"); !known || p.File != folder+"/site.rego" {
		t.Errorf("the policy is %+v", p)
	}
	if err := os.Remove(filepath.Join(folder, "site.rego")); err != nil {
		t.Fatal(err)
	}
	if _, err := Sources([]string{folder}); err == nil || !strings.Contains(err.Error(), "there are no policies") {
		t.Errorf("hidden files only: %v", err)
	}
}
