// Package chart renders dra-steward's Helm chart in memory, through the packages
// that helm itself is made of: no helm binary, no cluster. What a test installs
// is then what a user installs.
//
// [Manifests] gives the text of every file, [Render] the objects in it. Both take
// values in the shape of a values file; they are merged over the chart's own and
// checked against its schema, as helm does.
package chart

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/charts"
)

// Options are what helm takes from its command line and from the cluster. The
// zero value is a release dra-steward in the namespace dra-steward of a cluster
// of version 1.37.0.
type Options struct {
	ReleaseName string
	Namespace   string
	KubeVersion string
}

// Load returns the chart that the root module carries.
func Load() (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(charts.FS, charts.Name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := charts.FS.ReadFile(name)
		relative := strings.TrimPrefix(name, charts.Name+"/")
		files = append(files, &loader.BufferedFile{Name: relative, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the embedded chart: %w", err)
	}
	return loader.LoadFiles(files)
}

// Manifests renders the chart and returns the text of each file by its path
// inside the chart, NOTES.txt included. Files that render to nothing are left out.
func Manifests(values map[string]any, o Options) (map[string]string, error) {
	c, err := Load()
	if err != nil {
		return nil, err
	}
	capabilities, err := o.capabilities(c)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{
		Name:      or(o.ReleaseName, charts.Name),
		Namespace: or(o.Namespace, charts.Name),
		Revision:  1,
		IsInstall: true,
	}
	merged, err := chartutil.ToRenderValues(c, values, options, capabilities)
	if err != nil {
		return nil, fmt.Errorf("values of the chart: %w", err)
	}
	rendered, err := engine.Render(c, merged)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	out := map[string]string{}
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" {
			out[strings.TrimPrefix(name, c.Name()+"/")] = text
		}
	}
	return out, nil
}

// Render renders the chart and returns the objects of the release, ordered by file. What
// helm makes at other times only is left out: see [Hooks].
func Render(values map[string]any, o Options) ([]*unstructured.Unstructured, error) {
	return rendered(values, o, false)
}

// Hooks are the objects that helm makes at certain times and that are no part of the
// release, ordered by file.
func Hooks(values map[string]any, o Options) ([]*unstructured.Unstructured, error) {
	return rendered(values, o, true)
}

func rendered(values map[string]any, o Options, hooks bool) ([]*unstructured.Unstructured, error) {
	files, err := Manifests(values, o)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if _, hook := object.GetAnnotations()[helmrelease.HookAnnotation]; hook == hooks && object.Object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// capabilities describes the cluster and refuses one that the chart does not
// support, as helm install does.
func (o Options) capabilities(c *chart.Chart) (*chartutil.Capabilities, error) {
	version, err := chartutil.ParseKubeVersion(or(o.KubeVersion, "1.37.0"))
	if err != nil {
		return nil, fmt.Errorf("KubeVersion: %w", err)
	}
	if !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, version.Version) {
		return nil, fmt.Errorf("KubeVersion: the chart needs Kubernetes %s, not %s", c.Metadata.KubeVersion, version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	return capabilities, nil
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
