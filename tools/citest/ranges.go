package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rangeColumns are those of the table of ranges: how many times better than its peer our code is, and
// the part of that by which a run may be worse.
var rangeColumns = []string{"benchmark", "metric", "mean", "tolerance"}

// tolerated is the tolerance of a figure without a range.
const tolerated = 0.3

var errNoFigures = errors.New("no benchmark has both ours and its peer; pipe the output of go test -bench into it")

// A figure is what one contender has in one benchmark, in one metric.
type figure struct{ benchmark, metric string }

// samples are the values of ours and of the peer.
type samples struct{ ours, peer []float64 }

// ranges copies the output of benchmarks and compares the ratios in it with the table. With
// DRA_STEWARD_RECORD=yes it writes their means into the table instead.
func ranges(root string, in io.Reader, out io.Writer) error {
	known, err := readTable(filepath.Join(root, "test/results/ranges.tsv"), rangeColumns...)
	if err != nil {
		return err
	}
	found, err := readFigures(in, out)
	if err != nil {
		return err
	}
	record, compared, worse := os.Getenv("DRA_STEWARD_RECORD") == "yes", 0, 0
	fmt.Fprintf(out, "\n| benchmark | metric | ratio | range |\n| --- | --- | --- | --- |\n")
	for _, f := range slices.SortedFunc(maps.Keys(found), func(a, b figure) int {
		return cmp.Or(cmp.Compare(a.benchmark, b.benchmark), cmp.Compare(a.metric, b.metric))
	}) {
		ratio, is := found[f].ratio(f.metric)
		if !is || strings.HasSuffix(f.benchmark, "nothing") { // what the measuring itself takes
			continue
		}
		compared++
		mean, tolerance, has, err := known.rangeOf(f)
		switch {
		case err != nil:
			return err
		case record:
			known.replace(2, f.benchmark, f.metric, fmt.Sprintf("%.3g", ratio), strconv.FormatFloat(cmp.Or(tolerance, tolerated), 'g', 2, 64))
			fmt.Fprintf(out, "| %s | %s | %.3g | recorded |\n", f.benchmark, f.metric, ratio)
		case !has:
			fmt.Fprintf(out, "| %s | %s | %.3g | none |\n", f.benchmark, f.metric, ratio)
		default:
			verdict := ""
			if ratio < mean*(1-tolerance) {
				worse++
				verdict = ": worse"
			}
			fmt.Fprintf(out, "| %s | %s | %.3g | %.3g ± %.0f %%%s |\n", f.benchmark, f.metric, ratio, mean, 100*tolerance, verdict)
		}
	}
	switch {
	case compared == 0:
		return errNoFigures
	case record:
		return known.write()
	case worse > 0:
		return fmt.Errorf("%d of %d ratios are below their range in test/results/ranges.tsv", worse, compared)
	}
	return nil
}

// rangeOf returns the mean and the tolerance of a figure.
func (t *table) rangeOf(f figure) (mean, tolerance float64, has bool, _ error) {
	for _, row := range t.rows {
		if row[0] != f.benchmark || row[1] != f.metric {
			continue
		}
		mean, err := strconv.ParseFloat(row[2], 64)
		tolerance, err2 := strconv.ParseFloat(row[3], 64)
		if err != nil || err2 != nil || mean <= 0 || tolerance <= 0 || tolerance >= 1 {
			return 0, 0, false, fmt.Errorf("%s: %s, %s: mean %q and tolerance %q must be numbers, the tolerance between 0 and 1", t.file, f.benchmark, f.metric, row[2], row[3])
		}
		return mean, tolerance, true, nil
	}
	return 0, 0, false, nil
}

// readFigures reads the results of benchmarks. The last part of a benchmark's name says whose code
// it is: "ours", or "upstream" or "inTree" for that of Kubernetes. A line "1000 slices" says what the
// benchmarks after it have in common, and so does "10000 claims".
func readFigures(in io.Reader, out io.Writer) (map[figure]*samples, error) {
	found, prefix := map[figure]*samples{}, ""
	var failed error
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fmt.Fprintln(out, lines.Text())
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 2 && (words[1] == "slices" || words[1] == "claims"):
			prefix = lines.Text() + ": "
		case strings.HasPrefix(lines.Text(), "FAIL"), strings.HasPrefix(strings.TrimSpace(lines.Text()), "--- FAIL:"):
			failed = errors.New("a benchmark failed")
		case len(words) >= 4 && strings.HasPrefix(words[0], "Benchmark"):
			addFigures(found, prefix, words)
		}
	}
	return found, errors.Join(lines.Err(), failed)
}

// addFigures adds the values of one line. One line has several contenders where they run by turns: a metric
// "stock-pods/s" is that of kube-scheduler, and "10-patches-pods/s" ours.
func addFigures(found map[figure]*samples, prefix string, words []string) {
	name := strings.TrimPrefix(words[0], "Benchmark")
	if i := strings.LastIndex(name, "-"); i > 0 {
		name = name[:i] // the number of processors
	}
	at := func(benchmark, metric string) *samples {
		f := figure{prefix + benchmark, metric}
		if found[f] == nil {
			found[f] = &samples{}
		}
		return found[f]
	}
	stock := map[string]float64{}
	for metric, value := range metrics(words) {
		if rest, is := strings.CutPrefix(metric, "stock-"); is {
			stock[rest] = value
		}
	}
	for metric, value := range metrics(words) {
		benchmark, contender := path.Split(name)
		if many, rest, is := strings.Cut(metric, "-patches-"); is && stock[rest] > 0 {
			s := at(name+"/"+many+" patches", rest)
			s.ours, s.peer = append(s.ours, value), append(s.peer, stock[rest])
			continue
		}
		switch s := at(strings.TrimSuffix(benchmark, "/"), metric); contender {
		case "ours":
			s.ours = append(s.ours, value)
		case "upstream", "inTree":
			s.peer = append(s.peer, value)
		}
	}
}

// metrics are the values of a line that are not 0.
func metrics(words []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for i := 2; i+1 < len(words); i += 2 {
			if value, err := strconv.ParseFloat(words[i], 64); err == nil && value > 0 && !yield(words[i+1], value) {
				return
			}
		}
	}
}

// ratio is how many times better ours is: above 1 it is faster or takes less. Processor time, memory and
// what comes per second are compared; the clock is not, which depends on what else runs.
func (s *samples) ratio(metric string) (float64, bool) {
	if len(s.ours) == 0 || len(s.peer) == 0 {
		return 0, false
	}
	ours, peer := geometric(s.ours), geometric(s.peer)
	switch {
	case strings.HasSuffix(metric, "/s"):
		return ours / peer, true
	case strings.Contains(metric, "cpu"), strings.Contains(metric, "B/"), strings.HasPrefix(metric, "calls/"):
		return peer / ours, true
	}
	return 0, false
}

func geometric(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += math.Log(value)
	}
	return math.Exp(sum / float64(len(values)))
}
