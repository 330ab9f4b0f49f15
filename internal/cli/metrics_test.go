package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMetricsPageIsCurrent(t *testing.T) {
	all, err := Metrics()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := writeMetrics(&want, all); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error(`docs/metrics.md is not what the code says: run "make generate"`)
	}
	names := map[string]bool{}
	for _, m := range all {
		if !strings.HasPrefix(m.Name, "dra_steward_") || m.Help == "" || (m.Type == "counter") != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s (%s): the name must begin with dra_steward_, that of a counter and no other ends in _total, and it needs a help text", m.Name, m.Type)
		}
		names[m.Name] = true
	}
	for name, want := range map[string]string{"dra_steward_admission_seconds": "histogram", "dra_steward_admission_answers_total": "counter",
		"dra_steward_evictor_decision_seconds": "histogram", "dra_steward_evictor_pods": "gauge", "dra_steward_node_stale": "gauge"} {
		i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })
		if i < 0 || all[i].Type != want {
			t.Errorf("%s: must be a %s", name, want)
		}
	}
}

// TestEveryMetricIsListed fails for a constructor of metrics that the commands call and
// that Metrics leaves out.
func TestEveryMetricIsListed(t *testing.T) {
	var files []string
	for _, folder := range []string{".", "../server", "../manager", "../nodeagent", "../rules/policyload"} {
		found, err := filepath.Glob(folder + "/*.go")
		if err != nil || found == nil {
			t.Fatal(folder, err)
		}
		files = append(files, found...)
	}
	called, listed := map[string]string{}, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			function := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				function = file.Name.Name + "." + f.Name
			case *ast.SelectorExpr:
				if of, ok := f.X.(*ast.Ident); ok {
					function = of.Name + "." + f.Sel.Name
				}
			}
			_, short, found := strings.Cut(function, ".")
			if !found {
				short = function
			}
			if lower := strings.ToLower(short); strings.HasPrefix(lower, "new") && (strings.HasSuffix(short, "Metrics") || short == "NewDecisions") || strings.HasPrefix(lower, "registerexp") {
				if name == "metrics.go" || name == "../manager/registrations.go" { // manager.RegisterMetrics is in metrics.go

					listed[function] = true
				} else {
					called[function] = name
				}
			}
			return true
		})
	}
	for function, file := range called {
		if !listed[function] {
			t.Errorf("%s calls %s: add it to Metrics in metrics.go, so that the page and the dashboard know its metrics", file, function)
		}
	}
	if len(called) < 5 {
		t.Errorf("only %d constructors of metrics found", len(called))
	}
}
