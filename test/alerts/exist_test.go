package alerts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/dra-steward/dra-steward/internal/cli"
)

// TestMetricsExist fails for a metric or a label in an alert or on the dashboard that
// dra-steward does not have.
func TestMetricsExist(t *testing.T) {
	for name, rule := range alerts(t, nil) {
		check(t, name, rule.Expr)
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			check(t, p.Title, target.Expr)
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !strings.Contains(target.Expr, label[1]) {
					t.Errorf("%s: the legend names %s, the expression does not keep it", p.Title, label[1])
				}
			}
		}
	}
}

// TestCheck shows that what does not exist is found.
func TestCheck(t *testing.T) {
	for expression, want := range map[string]int{
		`sum by (kind) (rate(dra_steward_admission_answers_total{verdict="denied"}[5m]))`:       0,
		`histogram_quantile(0.9, sum by (le) (rate(dra_steward_admission_seconds_bucket[5m])))`: 0,
		`max by (namespace, pod) (dra_steward_config_load_failed)`:                              0,
		`dra_steward_admission_answer_total`:                                                    1,
		`dra_steward_config_load_failed_bucket`:                                                 1,
		`dra_steward_config_load_failed{kind="a"}`:                                              1,
		`sum by (user) (dra_steward_admission_answers_total)`:                                   1,
		`up`:       0,
		`down`:     1,
		`sum(1 + `: 1,
	} {
		if got := wrong(t, expression); len(got) != want {
			t.Errorf("%s: found %q, want %d", expression, got, want)
		}
	}
}

func check(t *testing.T, where, expression string) {
	t.Helper()
	for _, problem := range wrong(t, expression) {
		t.Errorf("%s: %s", where, problem)
	}
}

// wrong says what of an expression does not exist.
func wrong(t *testing.T, expression string) (problems []string) {
	t.Helper()
	all, err := cli.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{
		// Of the API server, in k8s.io/apiserver/pkg/admission/metrics.
		"apiserver_admission_webhook_fail_open_count": {"name", "type"},
		"apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
		"up": {}, // of Prometheus
	}
	for _, m := range all {
		labels[m.Name] = m.Labels
		if m.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				labels[m.Name+suffix] = append(slices.Clone(m.Labels), "le")
			}
		}
	}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []string{err.Error()}
	}
	scraped := []string{"cluster", "job", "namespace", "pod"} // labels that scraping adds
	known := slices.Clone(scraped)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of, ok := labels[selector.Name]
		if !ok {
			problems = append(problems, "there is no metric "+selector.Name)
		}
		known = append(known, of...)
		for _, matcher := range selector.LabelMatchers {
			if ok && matcher.Name != "__name__" && !slices.Contains(of, matcher.Name) && !slices.Contains(scraped, matcher.Name) {
				problems = append(problems, selector.Name+" has no label "+matcher.Name)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				if !slices.Contains(known, label) {
					problems = append(problems, "no metric of the expression has the label "+label)
				}
			}
		}
		return nil
	})
	return problems
}

// TestDashboardLayout: no panel covers another, and no two are one to Grafana.
func TestDashboardLayout(t *testing.T) {
	all := panels(t)
	for i, a := range all {
		if a.GridPos.X+a.GridPos.W > 24 {
			t.Errorf("%s is wider than the page", a.Title)
		}
		for _, b := range all[i+1:] {
			if a.ID == b.ID || a.Title == b.Title {
				t.Errorf("%s and %s have the same id or title", a.Title, b.Title)
			}
			if a.GridPos.X < b.GridPos.X+b.GridPos.W && b.GridPos.X < a.GridPos.X+a.GridPos.W &&
				a.GridPos.Y < b.GridPos.Y+b.GridPos.H && b.GridPos.Y < a.GridPos.Y+a.GridPos.H {
				t.Errorf("%s covers %s", a.Title, b.Title)
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^## (DraSteward\w+)$`)

// TestRunbooks: every alert links to its runbook, and every runbook is about an alert.
func TestRunbooks(t *testing.T) {
	const name = "docs/runbooks.md"
	page, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	all := alerts(t, nil)
	written := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(string(page), -1) {
		written[match[1]] = true
		if _, ok := all[match[1]]; !ok {
			t.Errorf("%s: %s is no alert", name, match[1])
		}
	}
	for alert, rule := range all {
		if !written[alert] {
			t.Errorf("%s: has no runbook for %s", name, alert)
		}
		if want := "https://github.com/dra-steward/dra-steward/blob/main/" + name + "#" + strings.ToLower(alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: links to %s, want %s", alert, rule.Annotations["runbook_url"], want)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: needs a summary, a description and a severity", alert)
		}
	}
	sections := heading.Split(string(page), -1)[1:]
	for i, match := range heading.FindAllStringSubmatch(string(page), -1) {
		for _, part := range []string{"**Means**", "**Look**", "**Do**"} {
			if !strings.Contains(sections[i], part) {
				t.Errorf("%s: %s lacks %s", name, match[1], part)
			}
		}
	}
}
