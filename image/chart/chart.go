// Package chart prepares the chart of a release: a copy that tells Artifact Hub its images, its changes
// and the key that signs it.
package chart

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/image/notes"
	"github.com/dra-steward/dra-steward/tools/build"
)

// Annotations of Chart.yaml that Artifact Hub reads, see https://artifacthub.io/docs/topics/annotations/helm/.
const (
	imagesAnnotation  = "artifacthub.io/images"
	changesAnnotation = "artifacthub.io/changes"
	signKeyAnnotation = "artifacthub.io/signKey"
)

// fingerprints are those of OpenPGP keys of version 4 and 6, as "helm verify" prints them.
var fingerprints = regexp.MustCompile(`^(?:[0-9A-F]{40}|[0-9A-F]{64})$`)

// An Image is one that the chart installs.
type Image struct {
	Name      string   `json:"name"`
	Image     string   `json:"image"`
	Platforms []string `json:"platforms"`
}

// Write copies the chart of the tree into the folder, which does not exist yet, and adds the images and the changes
// of its appVersion to Chart.yaml. It adds the fingerprint of the key that signs the chart, and the URL of its public
// part, unless both are empty.
func Write(dir, tree string, platforms []string, fingerprint, keyURL string) error {
	from := filepath.Join(tree, "charts", build.Steward)
	values, err := read(filepath.Join(from, "values.yaml"))
	if err != nil {
		return err
	}
	metadata, err := read(filepath.Join(from, "Chart.yaml"))
	if err != nil {
		return err
	}
	version, _ := metadata["appVersion"].(string)
	changelog, err := os.ReadFile(filepath.Join(tree, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	changes, err := notes.Changes(string(changelog), "v"+version)
	if err != nil {
		return err
	}
	images, err := imagesOf(values, version, platforms)
	if err != nil {
		return err
	}
	added := map[string]any{imagesAnnotation: images, changesAnnotation: changes}
	if fingerprint != "" || keyURL != "" {
		if added[signKeyAnnotation], err = signKey(fingerprint, keyURL); err != nil {
			return err
		}
	}
	if err := annotate(metadata, added); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return err
	}
	text, err := yaml.Marshal(metadata)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "Chart.yaml"), text, 0o644)
}

func read(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

// imagesOf returns the images that the values name. An empty tag means the version.
func imagesOf(values map[string]any, version string, platforms []string) ([]Image, error) {
	scheduler, _ := values["scheduler"].(map[string]any)
	registry := ""
	var images []Image
	for _, one := range []struct {
		path string
		of   map[string]any
	}{{"", values}, {"scheduler.", scheduler}} {
		image, _ := one.of["image"].(map[string]any)
		repository, _ := image["repository"].(string)
		if own, _ := image["registry"].(string); own != "" {
			registry = own // the first one is that of all images without one of their own
		}
		if registry == "" || repository == "" {
			return nil, fmt.Errorf("values.yaml: %simage: want a registry and a repository", one.path)
		}
		tag, _ := image["tag"].(string)
		if tag == "" {
			tag = version
		}
		name := repository[strings.LastIndex(repository, "/")+1:]
		images = append(images, Image{Name: name, Image: registry + "/" + repository + ":" + tag, Platforms: platforms})
	}
	return images, nil
}

// signKey returns what Artifact Hub shows of a key.
func signKey(fingerprint, keyURL string) (map[string]string, error) {
	if !fingerprints.MatchString(fingerprint) {
		return nil, fmt.Errorf("fingerprint %q of the key: want 40 or 64 hexadecimal digits in upper case, without spaces", fingerprint)
	}
	if u, err := url.Parse(keyURL); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("URL %q of the key: want https://HOST/PATH", keyURL)
	}
	return map[string]string{"fingerprint": fingerprint, "url": keyURL}, nil
}

// annotate adds each value as YAML.
func annotate(metadata, values map[string]any) error {
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	for name, value := range values {
		text, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		annotations[name] = string(text)
	}
	return nil
}
