package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// platforms are those of an image.
var platforms = []string{"linux/amd64", "linux/arm64"}

// TestReproducible makes the images of both programs twice with make image, in folders of
// different names, the second time with a cache that was empty: the digests are the same.
func TestReproducible(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("compiles both programs for two platforms twice, which takes many minutes; make test-long runs it")
	}
	elsewhere := filepath.Join(t.TempDir(), "another", "folder")
	if err := os.CopyFS(elsewhere, os.DirFS(tree)); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	for _, program := range []string{"dra-steward", "dra-steward-scheduler"} {
		first, second := saved(t, tree, program), saved(t, elsewhere, program, "GOCACHE="+cache)
		if first.digest != second.digest {
			t.Errorf("%s: the image has the digest %s, made again %s", program, first.digest, second.digest)
		}
		if index := "index.json"; !bytes.Equal(first.read(t, index), second.read(t, index)) {
			t.Errorf("%s: %s differs, which names the image and its bills of materials:\n%s\n%s", program, index, first.read(t, index), second.read(t, index))
		}
		for _, platform := range platforms {
			wantSameFiles(t, program+" for "+platform, first.files(t, platform), second.files(t, platform))
		}
		t.Logf("%s: %s", program, first.digest)
		dir := unpacked(t, first.files(t, "linux/"+runtime.GOARCH))
		wantStatic(t, filepath.Join(dir, "program"))
		wants := map[string][2]string{"dra-steward": {"version", "dra-steward v"}, "dra-steward-scheduler": {"--version", "v1.37.0+dra-steward."}}[program]
		if out, err := inside(t, dir, wants[0]).CombinedOutput(); err != nil || !strings.Contains(string(out), wants[1]) {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
}

// A savedImage is the image of a program in the layout of the Open Container Initiative.
type savedImage struct {
	dir, digest string
	// manifests are the digests of the images in it, by platform.
	manifests map[string]string
}

// A manifest is what this test reads of an index or of an image.
type manifest struct {
	Manifests []struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	Layers []struct{ Digest string }
}

// saved makes the image as a user does, and checks that it is for both platforms.
func saved(t *testing.T, in, program string, env ...string) savedImage {
	t.Helper()
	image := savedImage{dir: filepath.Join(t.TempDir(), "oci"), manifests: map[string]string{}}
	var printed, log bytes.Buffer
	command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", in, "image", "PROGRAM="+program, "IMAGE_LAYOUT="+image.dir)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), env...), &printed, &log
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, log.String())
	}
	image.digest = strings.TrimSpace(printed.String())
	for _, one := range image.manifest(t, image.digest).Manifests {
		image.manifests[one.Platform.OS+"/"+one.Platform.Architecture] = one.Digest
	}
	if got := slices.Sorted(maps.Keys(image.manifests)); !slices.Equal(got, platforms) {
		t.Fatalf("%s: the image %q is for %q, want %q", program, image.digest, got, platforms)
	}
	return image
}

func (i savedImage) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(i.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// blob returns what has the digest.
func (i savedImage) blob(t *testing.T, digest string) []byte {
	t.Helper()
	data := i.read(t, filepath.Join("blobs", strings.Replace(digest, ":", "/", 1)))
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); sum != digest {
		t.Fatalf("%s has the digest %s", digest, sum)
	}
	return data
}

func (i savedImage) manifest(t *testing.T, digest string) (m manifest) {
	t.Helper()
	if err := json.Unmarshal(i.blob(t, digest), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// files returns the files of a platform by name.
func (i savedImage) files(t *testing.T, platform string) map[string][]byte {
	t.Helper()
	layers := i.manifest(t, i.manifests[platform]).Layers
	if len(layers) != 1 {
		t.Fatalf("%s: %d layers, want one", platform, len(layers))
	}
	layer, err := gzip.NewReader(bytes.NewReader(i.blob(t, layers[0].Digest)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for packed := tar.NewReader(layer); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[header.Name], err = io.ReadAll(packed); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSameFiles names the files that make digests differ.
func wantSameFiles(t *testing.T, of string, a, b map[string][]byte) {
	t.Helper()
	for _, name := range []string{"LICENSE", "THIRD-PARTY-LICENSES", "bom.json", "program"} {
		if len(a[name]) == 0 || !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s: %s has %d bytes with the sum %x, made again %d with %x", of, name, len(a[name]), sha256.Sum256(a[name]), len(b[name]), sha256.Sum256(b[name]))
		}
	}
	if len(a) != 4 || len(b) != 4 {
		t.Errorf("%s: has %d files, made again %d, want 4", of, len(a), len(b))
	}
}

// unpacked writes the files into a folder.
func unpacked(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
