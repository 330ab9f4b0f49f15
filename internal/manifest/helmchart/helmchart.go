// Package helmchart renders charts with Helm's own library, without a cluster and without
// network, and reports the line of a template that a rendered line comes from.
package helmchart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// Options are those of "helm template". Empty ones have its defaults.
type Options struct {
	// Values are files, Set are assignments; later ones win, and assignments over files.
	Values, Set []string
	// Release and Namespace are what templates see of the release.
	Release, Namespace string
	// Kubernetes is the version that templates see; empty means that of Helm's libraries.
	Kubernetes string
	// Served reports whether the cluster serves a version of an API that Helm knows.
	Served func(apiVersion string) bool
	// Limits bound what the chart may cost.
	Limits Limits
}

// A File is a text with objects of a chart.
type File struct {
	// Name is that of the template, or of the file in crds, below the name of the chart as
	// it was given.
	Name string
	// Text is the rendered text.
	Text string
	// source is the template, empty if Text is what the file has.
	source string
}

// Render returns the files of the chart in a folder or archive, with those of its
// subcharts, by name. It returns at the end of ctx, or when the chart exceeds a limit; a
// template cannot be stopped, so it may then go on until the process ends.
func Render(ctx context.Context, name string, o Options) ([]File, error) {
	files, err := o.Limits.watch(ctx, func(ctx context.Context) ([]File, error) { return render(ctx, name, o) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return files, nil
}

func render(ctx context.Context, name string, o Options) ([]File, error) {
	c, err := load(name)
	if err != nil {
		return nil, err
	}
	values, err := o.values()
	if err != nil {
		return nil, err
	}
	capabilities, err := o.capabilities()
	if err != nil {
		return nil, err
	}
	if err := installable(c, name, capabilities.KubeVersion); err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, fmt.Errorf("dependencies of the chart: %w", err)
	}
	release := common.ReleaseOptions{Name: "release-name", Namespace: "default", Revision: 1, IsInstall: true}
	if o.Release != "" {
		release.Name = o.Release
	}
	if o.Namespace != "" {
		release.Namespace = o.Namespace
	}
	// Helm would fetch schemas that the chart refers to.
	all, err := util.ToRenderValuesWithSchemaValidation(c, values, release, capabilities, true)
	if err != nil {
		return nil, err
	}
	if table, err := all.Table("Values"); err == nil {
		if err := checkValues(c, table); err != nil {
			return nil, err
		}
	}
	texts, err := engine.Engine{}.RenderWithContext(ctx, c, all)
	if err != nil {
		return nil, err
	}
	return files(c, name, texts), nil
}

func load(name string) (*chart.Chart, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name the folder or the .tgz file of a chart", errors.Unwrap(err))
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.New("is neither a folder nor a regular file: name the folder or the .tgz file of a chart")
	}
	if !info.IsDir() {
		return loader.LoadFile(name)
	}
	if _, err := os.Stat(filepath.Join(name, "Chart.yaml")); err != nil {
		return nil, errors.New("has no Chart.yaml: name the folder or the .tgz file of a chart")
	}
	return loadFolder(name)
}

// installable returns why Helm would not install the chart.
func installable(c *chart.Chart, name string, version common.KubeVersion) error {
	if c.Metadata.Type == "library" {
		return errors.New("is a library chart, which has no objects: name a chart that uses it")
	}
	if wanted := c.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version.String()) {
		return fmt.Errorf("kubeVersion %q of Chart.yaml excludes Kubernetes %s: choose another one with --kubernetes-version", wanted, version.Version)
	}
	for _, wanted := range c.Metadata.Dependencies {
		has := func(d *chart.Chart) bool { return d.Name() == wanted.Name }
		if !slices.ContainsFunc(c.Dependencies(), has) {
			return fmt.Errorf("the dependency %q of Chart.yaml is not in charts/: run 'helm dependency build %s'", wanted.Name, name)
		}
	}
	return nil
}

// files are the rendered templates, and what the chart has in crds.
func files(c *chart.Chart, name string, texts map[string]string) (found []File) {
	sources := templates(c, map[string]string{})
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if path.Base(file) != "NOTES.txt" && strings.TrimSpace(texts[file]) != "" {
			found = append(found, File{Name: under(name, c, file), Text: texts[file], source: sources[file]})
		}
	}
	for _, crd := range c.CRDObjects() {
		found = append(found, File{Name: under(name, c, crd.Filename), Text: string(crd.File.Data)})
	}
	return found
}

// under is a file as the user would name it; Helm names it by the chart.
func under(name string, c *chart.Chart, file string) string {
	return filepath.Join(name, strings.TrimPrefix(filepath.ToSlash(file), c.ChartFullPath()+"/"))
}

// templates collects the text of the templates by the names of the rendered ones.
func templates(c *chart.Chart, found map[string]string) map[string]string {
	for _, t := range c.Templates {
		found[path.Join(c.ChartFullPath(), t.Name)] = string(t.Data)
	}
	for _, sub := range c.Dependencies() {
		templates(sub, found)
	}
	return found
}
