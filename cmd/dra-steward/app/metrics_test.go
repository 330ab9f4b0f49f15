package app

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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
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
	got, err := os.ReadFile("../../../docs/metrics.md")
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
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
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
				function = f.Name
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
				if name == "metrics.go" {
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

func TestStuckClaims(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	deleting := func(ago time.Duration, finalizers ...string) *resourceapi.ResourceClaim {
		at := metav1.NewTime(now.Add(-ago))
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, Finalizers: finalizers}}
	}
	used := deleting(time.Hour, resourceapi.Finalizer)
	used.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Name: "pod"}}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	want := 0
	for name, tt := range map[string]struct {
		claim *resourceapi.ResourceClaim
		stuck bool
	}{
		"not in deletion":         {&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{resourceapi.Finalizer}}}, false},
		"for five minutes":        {deleting(5*time.Minute, resourceapi.Finalizer), false},
		"for longer":              {deleting(5*time.Minute+time.Second, resourceapi.Finalizer), true},
		"used by a pod":           {used, false},
		"held by another as well": {deleting(time.Hour, resourceapi.Finalizer, "example.com/a"), false},
		"held by another":         {deleting(time.Hour, "example.com/a"), false},
	} {
		if got := stuck(tt.claim, now); got != tt.stuck {
			t.Errorf("%s: stuck is %v", name, got)
		}
		tt.claim.Name = name
		if tt.stuck {
			want++
		}
		if err := store.Add(tt.claim); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	if err := newClaimMetrics(registry, store, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || int(families[0].Metric[0].Gauge.GetValue()) != want {
		t.Errorf("%v, %v, want %d", families, err, want)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
