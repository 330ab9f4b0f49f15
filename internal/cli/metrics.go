package cli

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterdata"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/internal/manager"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/server"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/webhook"
)

// A Metric is one that a component of dra-steward serves at /metrics.
type Metric struct {
	// Components are the commands that serve it: serve, controller, node.
	Components []string
	Name, Help string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
}

// Metrics are all of them, in the order of their names; those of the Go runtime and of the
// process are left out.
func Metrics() ([]Metric, error) {
	all := map[string]*Metric{}
	for component, register := range registrations() {
		list := &metricList{}
		for _, add := range register {
			if err := add(list); err != nil {
				return nil, err
			}
		}
		for _, m := range list.metrics {
			if all[m.Name] == nil {
				all[m.Name] = &m
			}
			all[m.Name].Components = append(all[m.Name].Components, component)
		}
	}
	var sorted []Metric
	for _, m := range all {
		slices.Sort(m.Components)
		sorted = append(sorted, *m)
	}
	slices.SortFunc(sorted, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return sorted, nil
}

// registrations are what makes the metrics of each command.
func registrations() map[string][]func(prometheus.Registerer) error {
	return map[string][]func(prometheus.Registerer) error{
		"serve": {
			daemon.RegisterBuildInfo,
			func(r prometheus.Registerer) error { _, err := webhook.NewMetrics(r); return err },
			func(r prometheus.Registerer) error {
				_, err := webhook.NewDecisions(webhook.DecisionSettings{}, logr.Discard(), r)
				return err
			},
			func(r prometheus.Registerer) error { _, err := tracker.NewMetrics(r); return err },
			func(r prometheus.Registerer) error {
				_, err := server.NewConfigMetrics(r, func() review.Reviewer { return review.Reviewer{} })
				return err
			},
			func(r prometheus.Registerer) error { _, err := policyload.NewMetrics(r); return err },
			func(r prometheus.Registerer) error { _, err := clusterdata.NewMetrics(r); return err },
			func(r prometheus.Registerer) error { _, err := slicemerge.NewMetrics(r); return err },
			func(r prometheus.Registerer) error { return server.RegisterState(r, &webhook.Server{}, nil) },
		},
		"controller": {
			daemon.RegisterBuildInfo,
			manager.RegisterMetrics,
		},
		"node": {
			daemon.RegisterBuildInfo,
			func(r prometheus.Registerer) error {
				_, err := nodeagent.NewMetrics(r, nodeagent.MetricsOptions{})
				return err
			},
		},
	}
}

// A metricList is a registerer that only writes down what it is given.
type metricList struct{ metrics []Metric }

func (l *metricList) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for d := range descriptions {
		m, err := parseDescription(d.String())
		if err != nil {
			return err
		}
		m.Type = typeOf(c, m.Name)
		l.metrics = append(l.metrics, m)
	}
	return nil
}

func (l *metricList) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := l.Register(c); err != nil {
			panic(err) // the contract of prometheus.Registerer
		}
	}
}

func (l *metricList) Unregister(prometheus.Collector) bool { return false }

var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// parseDescription reads the only form in which a description tells what is in it.
func parseDescription(text string) (m Metric, err error) {
	parts := description.FindStringSubmatch(text)
	if parts == nil {
		return m, fmt.Errorf("description of a metric: %s: unknown format", text)
	}
	if m.Name, err = strconv.Unquote(parts[1]); err != nil {
		return m, err
	}
	if m.Help, err = strconv.Unquote(parts[2]); err != nil {
		return m, err
	}
	if parts[3] != "" {
		m.Labels = strings.Split(parts[3], ",")
	}
	return m, nil
}

// typeOf is the type of a metric of a collector. A collector of our own says it by the
// name alone, as Prometheus asks for.
func typeOf(c prometheus.Collector, name string) string {
	switch c := c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	case prometheus.Metric:
		var value dto.Metric
		if err := c.Write(&value); err == nil && value.Histogram != nil {
			return "histogram"
		}
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

func metricsCommand(streams cmdutil.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print a page with every metric of dra-steward",
		Long: `metrics prints the metrics of serve, controller and node in Markdown: name, type, labels
and meaning. docs/metrics.md is its output.`,
		Example: `  dra-steward metrics > metrics.md`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := Metrics()
			if err != nil {
				return err
			}
			return writeMetrics(streams.Out, all)
		},
	}
}

func writeMetrics(out io.Writer, all []Metric) error {
	var page strings.Builder
	page.WriteString(`# Metrics

"dra-steward metrics" generates this page from the code (make generate). The metrics of the Go
runtime and of the process are not listed. Tenants cannot choose the value of any label, except
for node, whose labels name the pods of one node.

| metric | type | labels | of | meaning |
| --- | --- | --- | --- | --- |
`)
	for _, m := range all {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "),
			strings.Join(m.Components, ", "), strings.ReplaceAll(m.Help, "|", `\|`))
	}
	err := printable.Page(out, page.String())
	return err
}
