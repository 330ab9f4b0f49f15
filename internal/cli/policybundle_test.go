package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicyBundle: --policies takes a tarball as "opa build" writes it.
func TestPolicyBundle(t *testing.T) {
	const text = `# METADATA
# title: Site
# description: Site.
# custom: {code: SITE-001, severity: low, mode: deny, about: object, kinds: [ResourceClaim], needs: [requests]}
package dra.custom.site

deny contains {"paths": ["spec"], "message": "not here"} if count(input.claim.requests) > 0
`
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: "/site/policy.rego", Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(bundle, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const claim = `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}`
	var out, problems bytes.Buffer
	code := cli.Run(t.Context(), []string{"policy", "eval", "--policies", bundle, "-"}, cmdutil.Streams{In: strings.NewReader(claim), Out: &out, Err: &problems})
	if code != cmdutil.ExitFindings || !strings.Contains(out.String(), "not here [SITE-001]") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), problems.String())
	}
}
