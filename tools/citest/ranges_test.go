package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const benchmarks = `1000 slices
goos: linux
BenchmarkRule/all/upstream-2    3   900 ns/op   400 cpu-us/op   96 B/op
BenchmarkRule/all/ours-2        3   100 ns/op   100 cpu-us/op   32 B/op
BenchmarkRule/all/ours-2        3   100 ns/op   25 cpu-us/op    32 B/op
PASS
BenchmarkEvict/inTree-2   1   10 ns/op   50 pods/s
BenchmarkEvict/ours-2     1   10 ns/op   100 pods/s
BenchmarkOther-2          1   10 ns/op
BenchmarkEvents/nothing/inTree-2   1   10 ns/op   50 cpu-us/op
BenchmarkEvents/nothing/ours-2     1   10 ns/op   90 cpu-us/op
---
BenchmarkPods/many-2      1   10 ns/op   20 0-patches-pods/s   80 10-patches-pods/s   40 stock-pods/s   9 stock-single-ms   9 0-patches-single-ms
`

// TestRanges: what is below its range is an error that counts it; other figures are shown.
func TestRanges(t *testing.T) {
	for name, tt := range map[string]struct{ table, in, want, err string }{
		"within":      {"1000 slices: Rule/all\tcpu-us/op\t9\t0.3\n", benchmarks, "| 1000 slices: Rule/all | cpu-us/op | 8 | 9 ± 30 % |", ""},
		"worse":       {"1000 slices: Rule/all\tcpu-us/op\t12\t0.3\n", benchmarks, "12 ± 30 %: worse", "1 of 5 ratios"},
		"better":      {"1000 slices: Rule/all\tB/op\t1\t0.3\n", benchmarks, "| B/op | 3 | 1 ± 30 % |", ""},
		"per second":  {"", benchmarks, "| 1000 slices: Evict | pods/s | 2 | none |", ""},
		"by turns":    {"", benchmarks, "| 1000 slices: Pods/many/0 patches | pods/s | 0.5 | none |\n| 1000 slices: Pods/many/10 patches | pods/s | 2 | none |", ""},
		"no clock":    {"", benchmarks, "| 1000 slices: Rule/all | B/op | 3 | none |\n| 1000 slices: Rule/all | cpu-us/op", ""},
		"a failure":   {"", benchmarks + "FAIL\n", "FAIL", "a benchmark failed"},
		"one failure": {"", benchmarks + "    --- FAIL: BenchmarkRule/all\n", "FAIL", "a benchmark failed"},
		"nothing":     {"", "PASS\n", "PASS", errNoFigures.Error()},
		"wrong range": {"1000 slices: Rule/all\tcpu-us/op\t9\t3\n", benchmarks, "", "must be numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DRA_STEWARD_RECORD", "")
			root := t.TempDir()
			if err := (&table{file: filepath.Join(root, "test/results/ranges.tsv"), columns: rangeColumns}).write(); err != nil {
				t.Fatal(err)
			}
			file, err := os.OpenFile(filepath.Join(root, "test/results/ranges.tsv"), os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteString(tt.table); err != nil {
				t.Fatal(err)
			}
			file.Close()
			var out strings.Builder
			err = ranges(root, strings.NewReader(tt.in), &out)
			if text := ""; err != nil {
				text = err.Error()
				if tt.err == "" || !strings.Contains(text, tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
			} else if tt.err != "" {
				t.Errorf("no error, want %q", tt.err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("want %q in\n%s", tt.want, out.String())
			}
		})
	}
}

// TestRangesRecord: a recorded mean is compared with in the next run, and keeps its tolerance.
func TestRangesRecord(t *testing.T) {
	root := t.TempDir()
	t.Setenv("DRA_STEWARD_RECORD", "yes")
	if err := ranges(root, strings.NewReader(benchmarks), &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DRA_STEWARD_RECORD", "")
	var out strings.Builder
	if err := ranges(root, strings.NewReader(benchmarks), &out); err != nil || strings.Count(out.String(), "± 30 %") != 5 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestRangesHere: the table of this repository is valid.
func TestRangesHere(t *testing.T) {
	known, err := readTable("../../test/results/ranges.tsv", rangeColumns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range known.rows {
		if _, _, _, err := known.rangeOf(figure{row[0], row[1]}); err != nil {
			t.Error(err)
		}
	}
}
