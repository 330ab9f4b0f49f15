package lint

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/manifest/helmchart"
)

// helmOptions are the flags that "helm template" has too, most under the same name.
type helmOptions struct {
	on                 bool
	values, set        []string
	release, namespace string
}

func (o *helmOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "helm", false, "render the arguments, which are charts, and check the objects")
	f.StringArrayVarP(&o.values, "values", "f", nil, "with --helm: file with values of the chart (repeatable)")
	f.StringArrayVar(&o.set, "set", nil, "with --helm: values of the chart: KEY=VALUE,... (repeatable)")
	f.StringVar(&o.release, "helm-release", "", "with --helm: name of the release (default: release-name)")
	f.StringVar(&o.namespace, "helm-namespace", "", "with --helm: namespace of the release (default: default)")
}

// check refuses flags that have no effect.
func (o *helmOptions) check(fix bool) error {
	switch {
	case o.on && fix:
		return errors.New("--helm: a rendered object cannot be changed with --fix or --diff; change the template")
	case !o.on && (len(o.values)+len(o.set) > 0 || o.release+o.namespace != ""):
		return errors.New("--values, --set, --helm-release and --helm-namespace need --helm")
	}
	return nil
}

// renderer renders with the flags. A version with its patch is the version that templates
// see; another one gets patch 0.
func (o *helmOptions) renderer(kubernetes string) lint.Renderer {
	options := helmchart.Options{Values: o.values, Set: o.set, Release: o.release, Namespace: o.namespace}
	return func(ctx context.Context, chart string, cluster lint.Cluster) (texts []lint.Rendered, err error) {
		options.Kubernetes, options.Served = cluster.Version, cluster.Serves
		if strings.Count(kubernetes, ".") > 1 {
			options.Kubernetes = kubernetes
		}
		files, err := helmchart.Render(ctx, chart, options)
		for _, file := range files {
			text := lint.Rendered{File: file.Name, Text: file.Text}
			if place := file.Place(); place != nil {
				text.Place = place.Find
			}
			texts = append(texts, text)
		}
		return texts, err
	}
}
