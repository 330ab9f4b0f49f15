package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/image/chart"
	"github.com/dra-steward/dra-steward/image/notes"
)

// release copies the chart and the changelog of this repository as they are when 0.1.0 is tagged.
func release(t *testing.T) (tree string) {
	t.Helper()
	tree = t.TempDir()
	if err := os.CopyFS(filepath.Join(tree, "charts/dra-steward"), os.DirFS("../../charts/dra-steward")); err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(changelog), "## [Unreleased]", "## [0.1.0] - 2027-01-02", 1)
	if err := os.WriteFile(filepath.Join(tree, "CHANGELOG.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestWrite: Artifact Hub gets the images and changes of a release beside what Chart.yaml says.
func TestWrite(t *testing.T) {
	tree, dir := release(t), filepath.Join(t.TempDir(), "dra-steward")
	platforms := []string{"linux/amd64", "linux/arm64"}
	if err := chart.Write(dir, tree, platforms, "", ""); err != nil {
		t.Fatal(err)
	}
	before, after := annotations(t, filepath.Join(tree, "charts/dra-steward")), annotations(t, dir)
	for name, value := range before {
		if after[name] != value {
			t.Errorf("%s: %q, want %q", name, after[name], value)
		}
	}
	var images []chart.Image
	if err := yaml.UnmarshalStrict([]byte(after["artifacthub.io/images"]), &images); err != nil {
		t.Fatal(err)
	}
	want := []string{"registry-to-be-set.example.invalid/dra-steward/dra-steward:0.1.0", "registry-to-be-set.example.invalid/dra-steward/dra-steward-scheduler:0.1.0"}
	for i, image := range images {
		if i >= len(want) || image.Image != want[i] || !slices.Equal(image.Platforms, platforms) || !strings.Contains(image.Image, "/"+image.Name+":") {
			t.Errorf("%+v, want %q", images, want)
		}
	}
	if len(images) != len(want) {
		t.Errorf("%d images, want %d", len(images), len(want))
	}
	var changes []notes.Change
	if err := yaml.UnmarshalStrict([]byte(after["artifacthub.io/changes"]), &changes); err != nil {
		t.Fatal(err)
	}
	if len(changes) < 10 {
		t.Errorf("%d changes of the changelog", len(changes))
	}
	for _, change := range changes {
		if change.Kind != "added" || change.Description == "" || strings.ContainsAny(change.Description, "`\n") || strings.Contains(change.Description, "](") {
			t.Errorf("%+v is not plain text of an addition", change)
		}
	}
	if key, has := after["artifacthub.io/signKey"]; has {
		t.Errorf("a key that signed nothing: %q", key)
	}
	if err := chart.Write(dir, tree, platforms, "", ""); err == nil {
		t.Error("writes over a chart")
	}
}

// TestWriteKey: Artifact Hub gets the key of a release, and half a key or a wrong one is an error.
func TestWriteKey(t *testing.T) {
	const url = "https://keys.example.com/chart.asc"
	fingerprint := strings.Repeat("0123456789", 4) // digits only, which YAML would take for a number
	tree := release(t)
	dir := filepath.Join(t.TempDir(), "dra-steward")
	if err := chart.Write(dir, tree, nil, fingerprint, url); err != nil {
		t.Fatal(err)
	}
	var key map[string]string
	if err := yaml.UnmarshalStrict([]byte(annotations(t, dir)["artifacthub.io/signKey"]), &key); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"fingerprint": fingerprint, "url": url}; !maps.Equal(key, want) {
		t.Errorf("%q, want %q", key, want)
	}
	for _, wrong := range [][2]string{{fingerprint, ""}, {"", url}, {fingerprint[1:], url}, {strings.Repeat("ab", 20), url}, {fingerprint, "http://keys.example.com/chart.asc"}, {fingerprint, "https:chart.asc"}} {
		dir := filepath.Join(t.TempDir(), "dra-steward")
		if err := chart.Write(dir, tree, nil, wrong[0], wrong[1]); err == nil || !strings.Contains(err.Error(), "of the key: want") {
			t.Errorf("%q: %v", wrong, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestWriteWithoutSection: a chart whose version the changelog does not have is not written.
func TestWriteWithoutSection(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dra-steward")
	if err := chart.Write(dir, "../..", nil, "", ""); err == nil || !strings.Contains(err.Error(), "no section [0.1.0]") {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func annotations(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		t.Fatal(err)
	}
	return metadata.Annotations
}
