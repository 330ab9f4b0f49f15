package alerts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// The query engine, the notation of series, and the templates are Prometheus' own. Its packages
// rules, promqltest and tsdb are not used: through the configuration of remote storage they import
// the SDKs of three clouds.

// A memory has series. It answers the queries of the engine.
type memory []storage.Series

// load reads series in the notation of promtool, one a line, with a sample each interval from the
// epoch on.
func load(t *testing.T, every time.Duration, text string) (m memory) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		set, values, err := newParser().ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if v.Histogram != nil {
				t.Fatalf("%s: a series of native histograms, which no metric of ours is", line)
			}
			if !v.Omitted {
				samples = append(samples, sample{at: int64(i) * every.Milliseconds(), value: v.Value})
			}
		}
		m = append(m, storage.NewListSeries(set, samples))
	}
	if len(m) == 0 {
		t.Fatal("no series")
	}
	return m
}

// A sample is a number at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

func (m memory) Querier(int64, int64) (storage.Querier, error) { return querier{m}, nil }

// A querier ignores the bounds of its time: the engine does not look further.
type querier struct{ series memory }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &selection{at: -1}
	for _, s := range q.series {
		matches := true
		for _, m := range matchers {
			matches = matches && m.Matches(s.Labels().Get(m.Name))
		}
		if matches {
			found.series = append(found.series, s)
		}
	}
	return found
}

func (q querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, fmt.Errorf("no query asks for the values of labels")
}

func (q querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, fmt.Errorf("no query asks for the names of labels")
}

func (q querier) Close() error { return nil }

// A selection are the series of an answer.
type selection struct {
	series []storage.Series
	at     int
}

func (s *selection) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *selection) At() storage.Series                { return s.series[s.at] }
func (s *selection) Err() error                        { return nil }
func (s *selection) Warnings() annotations.Annotations { return nil }

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// newEngine has the limits that a Prometheus has, and the features that are on by default.
func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 100_000, Timeout: 100 * time.Second, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() }, Parser: newParser(),
	})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// query evaluates an expression at a time.
func query(ctx context.Context, engine *promql.Engine, m memory, expression string, at time.Time) (promql.Vector, error) {
	prepared, err := engine.NewInstantQuery(ctx, m, nil, expression, at)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	result := prepared.Exec(ctx)
	if scalar, is := result.Value.(promql.Scalar); is && result.Err == nil {
		return promql.Vector{{T: scalar.T, F: scalar.V}}, nil
	}
	vector, err := result.Vector()
	return append(promql.Vector(nil), vector...), err
}

// An alerting is a rule with its state: the alerts, by their labels.
type alerting struct {
	rule   rulefmt.Rule
	query  template.QueryFunc
	active map[string]*active
}

// An active alert is pending, or it fires. Gone is when its condition was first false.
type active struct {
	since, gone time.Time
	firing      bool
	annotations map[string]string
}

func newAlerting(t *testing.T, rule rulefmt.Rule, m memory) *alerting {
	t.Helper()
	engine := newEngine(t)
	return &alerting{rule: rule, active: map[string]*active{}, query: func(ctx context.Context, expression string, at time.Time) (promql.Vector, error) {
		return query(ctx, engine, m, expression, at)
	}}
}

// eval evaluates the rule once, as Prometheus does at each interval.
func (a *alerting) eval(ctx context.Context, at time.Time) error {
	vector, err := a.query(ctx, a.rule.Expr, at)
	if err != nil {
		return err
	}
	now := map[string]map[string]string{}
	for _, s := range vector {
		expand := a.expander(ctx, s, at)
		set := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel)
		for name, text := range a.rule.Labels {
			set.Set(name, expand(text))
		}
		key := set.Set(model.AlertNameLabel, a.rule.Alert).Labels().String()
		if _, twice := now[key]; twice {
			return fmt.Errorf("two alerts have the labels %s", key)
		}
		now[key] = map[string]string{}
		for name, text := range a.rule.Annotations {
			now[key][name] = expand(text)
		}
	}
	for key, said := range now {
		if a.active[key] == nil {
			a.active[key] = &active{since: at}
		}
		one := a.active[key]
		one.annotations, one.gone = said, time.Time{}
		one.firing = one.firing || at.Sub(one.since) >= time.Duration(a.rule.For)
	}
	a.resolve(now, at)
	return nil
}

// resolve ends the alerts whose condition is false, unless they go on firing for a while.
func (a *alerting) resolve(now map[string]map[string]string, at time.Time) {
	for key, one := range a.active {
		if _, is := now[key]; is {
			continue
		}
		if one.gone.IsZero() {
			one.gone = at
		}
		if !one.firing || at.Sub(one.gone) >= time.Duration(a.rule.KeepFiringFor) {
			delete(a.active, key)
		}
	}
}

// expander expands the templates of a sample. An error is part of the text, as in Prometheus.
func (a *alerting) expander(ctx context.Context, s promql.Sample, at time.Time) func(string) string {
	const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	data := template.AlertTemplateData(s.Metric.Map(), map[string]string{}, "", s)
	return func(text string) string {
		expanded, err := template.NewTemplateExpander(ctx, variables+text, "__alert_"+a.rule.Alert, data, model.TimeFromUnixNano(at.UnixNano()), a.query, nil, nil).Expand()
		if err != nil {
			return fmt.Sprintf("<error expanding template: %s>", err)
		}
		return expanded
	}
}
