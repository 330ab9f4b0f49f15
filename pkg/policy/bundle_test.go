package policy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// tarball is a gzipped tarball with some files.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	for name, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

const (
	bundled      = header + "deny contains v if {\n\tsome t in input.tolerations\n\tt.key == \"example.com/forbidden\"\n\tv := {\"paths\": t.paths, \"message\": \"forbidden\"}\n}\n"
	bundledTests = "package dra.custom.test_test\n\nimport data.dra.custom.test\n\ntest_denied if count(test.deny) == 1 with input.tolerations as [{\"key\": \"example.com/forbidden\", \"paths\": [\"a\"]}]\n\ntest_passes if count(test.deny) == 0 with input.tolerations as []\n"
)

// TestBundle: what "opa build" packs is in force like a folder, its tests are run, and what
// is no bundle of policies is refused.
func TestBundle(t *testing.T) {
	good := map[string]string{"/.manifest": `{"revision": "7", "roots": ["dra/custom/test", "dra/custom/test_test"]}`,
		"/site/policy.rego": bundled, "/site/policy_test.rego": bundledTests}
	files, err := policy.Bundle(bytes.NewReader(tarball(t, good)))
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Compile(t.Context(), policy.Library(), policy.Collection{Name: "site.tar.gz", Files: files})
	if err != nil {
		t.Fatal(err)
	}
	if p, known := set.Policy("TEST-001"); !known || p.File != "site.tar.gz/site/policy.rego" {
		t.Errorf("the policy is %+v", p)
	}
	e, err := policy.NewEngine(set, policy.Settings{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	d := decide(t, e, writing(asking(resourceapi.DeviceToleration{Key: "example.com/forbidden", Operator: "Exists", Effect: "NoSchedule"})))
	if len(d.Violations) != 1 || d.Violations[0].Code != "TEST-001" {
		t.Errorf("said %+v", d.Violations)
	}

	for name, tt := range map[string]struct{ file, text, says string }{
		"data":         {"/site/data.json", `{"allowed": ["a"]}`, "the bundle has data"},
		"no Rego":      {"/site/policy.rego", "deny {", "rego_parse_error"},
		"failing test": {"/site/policy_test.rego", strings.Replace(bundledTests, "== 1", "== 2", 1), "site.tar.gz/site/policy_test.rego:5: dra.custom.test_test.test_denied: fails"},
		"huge":         {"/site/huge.rego", "package huge\n#" + strings.Repeat("x", 33<<20), "exceeded max size"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := map[string]string{tt.file: tt.text}
			for file, text := range good {
				if bad[file] == "" && file != "/.manifest" {
					bad[file] = text
				}
			}
			files, err := policy.Bundle(bytes.NewReader(tarball(t, bad)))
			if err == nil {
				_, err = policy.Compile(t.Context(), policy.Collection{Name: "site.tar.gz", Files: files})
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want an error with %q", err, tt.says)
			}
		})
	}
	if _, err := policy.Bundle(strings.NewReader("no tarball")); err == nil {
		t.Error("text is taken for a bundle")
	}
}

// TestBundlePaths: a path that leads out of the bundle is an error, and no file outside the
// bundle is read or replaced.
func TestBundlePaths(t *testing.T) {
	for _, name := range []string{"../escaped/policy.rego", "/../escaped/policy.rego", "/site/../../escaped/policy.rego"} {
		files, err := policy.Bundle(bytes.NewReader(tarball(t, map[string]string{name: bundled})))
		if err == nil {
			_, err = policy.Compile(t.Context(), policy.Collection{Name: "site.tar.gz", Files: files})
		}
		if err == nil {
			t.Errorf("%s is loaded", name)
		}
	}
}

// TestBundleSignatures: signatures are not verified, so that one that is wrong changes nothing:
// the author of the file decides what it holds.
func TestBundleSignatures(t *testing.T) {
	for _, signatures := range []string{`{"signatures": ["forged"]}`, "garbage"} {
		files, err := policy.Bundle(bytes.NewReader(tarball(t, map[string]string{"/site/policy.rego": bundled, "/.signatures.json": signatures})))
		if err != nil {
			t.Errorf("%s: %v", signatures, err)
			continue
		}
		if _, err := policy.Compile(t.Context(), policy.Collection{Name: "site.tar.gz", Files: files}); err != nil {
			t.Errorf("%s: %v", signatures, err)
		}
	}
}
