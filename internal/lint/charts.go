package lint

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// A Renderer renders a chart for a cluster.
type Renderer func(ctx context.Context, chart string, cluster Cluster) ([]Rendered, error)

// A Cluster is what the templates of a chart see of it.
type Cluster struct {
	// Version is that of the API server, such as "v1.37.0".
	Version string
	// Serves reports whether the API server serves a version of an API by default.
	Serves func(apiVersion string) bool
}

// Rendered is a rendered template, or another text of a chart.
type Rendered struct {
	File, Text string
	// Place returns the place in the template of one in Text, and what there is to add to a
	// message about it; nil if Text is what the file has.
	Place func(line, column int) (row, col int, note string)
}

// RunCharts renders charts and checks the objects, as Run does those of files. A result
// has the place in the template.
func (l Linter) RunCharts(ctx context.Context, render Renderer, charts ...string) iter.Seq[Result] {
	return l.run(func(yield func(task) bool) {
		for _, chart := range charts {
			for t := range l.chart(ctx, render, chart) {
				if !yield(t) {
					return
				}
			}
		}
	})
}

// chart yields the tasks of a chart.
func (l Linter) chart(ctx context.Context, render Renderer, chart string) iter.Seq[task] {
	return func(yield func(task) bool) {
		var texts []Rendered
		site, err := l.Sites.For(inside(chart))
		if err == nil {
			minor := site.minor()
			texts, err = render(ctx, chart, Cluster{fmt.Sprintf("v1.%d.0", minor), func(v string) bool { return serves(v, minor) }})
		}
		if err != nil {
			yield(task{first: true, part: manifest.Part{File: chart}, err: err})
			return
		}
		for _, text := range texts {
			if site.skips(text.File) {
				continue
			}
			first := true
			for part, err := range l.Reader.Parts(text.File, strings.NewReader(text.Text)) {
				if !yield(task{first: first, part: part, site: site, err: err, place: text.Place, namespace: l.Namespace}) {
					return
				}
				first = false
			}
		}
	}
}

// inside is a file in the folder from which the configuration of a chart is looked for.
func inside(chart string) string {
	if info, err := os.Stat(chart); err == nil && info.IsDir() {
		return filepath.Join(chart, "Chart.yaml")
	}
	return chart
}

// serves reports whether a cluster serves a version of an API by default. It knows those of
// resource.k8s.io alone.
func serves(apiVersion string, minor int) bool {
	group, name, _ := strings.Cut(apiVersion, "/")
	if group != resourceapi.GroupName {
		return true
	}
	return slices.ContainsFunc(manifest.Kinds(), func(kind string) bool {
		return slices.ContainsFunc(manifest.Versions(kind), func(v manifest.Version) bool {
			return v.Name == name && !v.OffByDefault && exists(v, minor)
		})
	})
}

// locate gives a result of a rendered text its place in the template.
func (t task) locate(r *Result) {
	if t.place == nil {
		return
	}
	r.Line, _, _ = t.place(r.Line, 1)
	for i := range r.Reports {
		report, note := &r.Reports[i], ""
		report.Line, report.Column, note = t.place(report.Line, report.Column)
		report.Message += note
	}
}
