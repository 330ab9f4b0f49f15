package schedulerperf_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// columns are those of test/results/schedulerperf.tsv.
const columns = "case\tnodes\tpods\tstock pods/s\tours pods/s\tratio\truns\tspread\tcommit\tdate"

// results are the pods per second of each turn.
type results struct{ stock, ours []float64 }

func (r *results) ratio() float64 { return mean(r.ours) / mean(r.stock) }

// spread is how far the turns of one scheduler are apart, as a part of their mean.
func (r *results) spread() float64 {
	of := func(values []float64) float64 { return (slices.Max(values) - slices.Min(values)) / mean(values) }
	return math.Max(of(r.stock), of(r.ours))
}

func (r *results) String() string {
	return fmt.Sprintf("stock %.1f, ours %.1f pods/s, ratio %.2f, spread %.0f %%", r.stock, r.ours, r.ratio(), 100*r.spread())
}

// row is a line of the table of results, without commit and date.
func (r *results) row(w workload, nodes, pods int) []string {
	return []string{
		w.String(), fmt.Sprint(nodes), fmt.Sprint(pods), fmt.Sprintf("%.1f", mean(r.stock)), fmt.Sprintf("%.1f", mean(r.ours)),
		fmt.Sprintf("%.2f", r.ratio()), fmt.Sprint(len(r.stock) + len(r.ours)), fmt.Sprintf("%.0f %%", 100*r.spread()),
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

// replace puts a row into a table of results, in the place of an earlier one of the same case.
func replace(file string, row []string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != columns {
		return fmt.Errorf("%s:1: has the columns %q, want %q", file, lines[0], columns)
	}
	rows := slices.DeleteFunc(lines[1:], func(line string) bool { return strings.HasPrefix(line, row[0]+"\t") })
	rows = append(rows, strings.Join(row, "\t"))
	slices.Sort(rows)
	return os.WriteFile(file, []byte(columns+"\n"+strings.Join(rows, "\n")+"\n"), 0o644)
}

// TestRecord: a row takes the place of that of the same case.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schedulerperf.tsv")
	if err := os.WriteFile(file, []byte(columns+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one := &results{stock: []float64{100, 120}, ours: []float64{99, 121}}
	two := &results{stock: []float64{50, 50}, ours: []float64{40, 50}}
	w := workload{testCase: "B", name: "half"}
	for _, row := range [][]string{two.row(w, 500, 10), one.row(workload{testCase: "A", name: "full"}, 500, 10), one.row(w, 500, 10)} {
		if err := replace(file, append(row, "12345678", "2026-11-26")); err != nil {
			t.Fatal(err)
		}
	}
	rest := "\t500\t10\t110.0\t110.0\t1.00\t4\t20 %\t12345678\t2026-11-26\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != columns+"\nA/full"+rest+"B/half"+rest {
		t.Errorf("the table is\n%s\n%v", got, err)
	}
	if two.ratio() != 0.9 || two.String() != "stock [50.0 50.0], ours [40.0 50.0] pods/s, ratio 0.90, spread 22 %" {
		t.Errorf("the results are %s", two)
	}
}
