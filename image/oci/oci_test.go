package oci_test

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/dra-steward/dra-steward/image/oci"
	"github.com/dra-steward/dra-steward/image/rootfs"
	"github.com/dra-steward/dra-steward/tools/build"
)

var stamp = build.Stamp{Version: "v0.1.0", Commit: "0123456789abcdef0123456789abcdef01234567", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// files is a folder as root makes it, with other times and modes at each call.
func files(t *testing.T, arch string, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{"program": "runs on " + arch, "bom.json": "{}", "LICENSE": "do what you want", "THIRD-PARTY-LICENSES": "they, too"} {
		as := mode &^ 0o111
		if name == "program" {
			as = mode
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), as); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func image(t *testing.T, mode os.FileMode) *oci.Image {
	t.Helper()
	made, err := oci.New("dra-steward", stamp, []rootfs.Platform{{OS: "linux", Arch: "amd64", Dir: files(t, "amd64", mode)}, {OS: "linux", Arch: "arm64", Dir: files(t, "arm64", mode)}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestPush: what a registry gives back is the image, for both platforms, with its bills of
// materials as referrers.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	defer server.Close()
	made := image(t, 0o755)
	reference, err := made.Push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/dra-steward:v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := name.NewDigest(reference)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Annotations["org.opencontainers.image.revision"] != stamp.Commit || manifest.Annotations["org.opencontainers.image.version"] != "v0.1.0" {
		t.Errorf("annotations %v", manifest.Annotations)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		one, err := remote.Image(digest, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		wantImage(t, one, arch)
		subject, err := one.Digest()
		if err != nil {
			t.Fatal(err)
		}
		referrers, err := remote.Referrers(digest.Digest(subject.String()))
		if err != nil {
			t.Fatal(err)
		}
		all, err := referrers.IndexManifest()
		if err != nil || len(all.Manifests) != 1 || all.Manifests[0].ArtifactType != oci.BillType {
			t.Errorf("%s has the referrers %+v, %v", arch, all, err)
		}
	}
}

func wantImage(t *testing.T, one v1.Image, arch string) {
	t.Helper()
	config, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.Config.User != oci.User || !slices.Equal(config.Config.Entrypoint, []string{"/program"}) || !config.Created.Time.Equal(stamp.Time) {
		t.Errorf("%s: configuration %+v", arch, config)
	}
	content := mutate.Extract(one)
	defer content.Close()
	modes := map[string]int64{}
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
		if header.Uid != 0 || header.Uname != "" || !header.ModTime.Equal(stamp.Time) {
			t.Errorf("%s: %+v", arch, header)
		}
	}
	if want := map[string]int64{"LICENSE": 0o444, "THIRD-PARTY-LICENSES": 0o444, "bom.json": 0o444, "program": 0o555}; !maps.Equal(modes, want) {
		t.Errorf("%s: files %v, want %v", arch, modes, want)
	}
}

// TestSameDigest: the digest depends on files and stamp alone.
func TestSameDigest(t *testing.T) {
	a, errA := image(t, 0o755).Digest()
	b, errB := image(t, 0o700).Digest()
	if err := errors.Join(errA, errB); err != nil || a != b {
		t.Errorf("%v: digests %s and %s", err, a, b)
	}
}

// TestSave: a folder in the OCI layout holds the image and both bills of materials.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	made := image(t, 0o755)
	if err := made.Save(dir, "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	saved, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(saved); err != nil {
		t.Error(err)
	}
	manifest, err := saved.IndexManifest()
	digest, digestErr := made.Digest()
	if err := errors.Join(err, digestErr); err != nil || len(manifest.Manifests) != 3 || manifest.Manifests[0].Digest != digest || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v0.1.0" {
		t.Errorf("%v: %+v", err, manifest)
	}
}
