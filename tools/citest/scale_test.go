package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMisses(t *testing.T) {
	for _, tt := range []struct {
		value float64
		aim   string
		want  bool
	}{
		{511, "< 512 MiB", false}, {512, "< 512 MiB", true}, {999, "< 1,000 ms", false}, {1000, "< 1,000 ms", true},
		{1.3, "≤ 1.3", false}, {1.31, "≤ 1.3", true}, {0.9, "≥ 0.9", false}, {0.89, "≥ 0.9", true}, {299, "≥ 300/s", true},
		{0, "0", false}, {1, "0", true}, {5, "", false},
	} {
		if got := misses(tt.value, tt.aim); got != tt.want {
			t.Errorf("%g of %q: %v, want %v", tt.value, tt.aim, got, tt.want)
		}
	}
}

// measured is a tree with results of all figures of the picture, with 1,000 and 2,000 nodes, of which one grows too fast.
func measured(t *testing.T, without string) string {
	t.Helper()
	lines := []string{strings.Join(scaleColumns, "\t")}
	for _, p := range panels {
		for i, name := range p.names {
			if name == without {
				continue
			}
			double := float64(2)
			if i == 0 {
				double = 4
			}
			lines = append(lines, fmt.Sprintf("%s\t1000\t%d\t%s\tyes\t< 3 %s\tc\td", name, i+1, p.unit, p.unit),
				fmt.Sprintf("%s\t2000\t%g\t%s\tyes\t< 3 %s\tc\td", name, float64(i+1)*double, p.unit, p.unit))
		}
	}
	root := t.TempDir()
	file := filepath.Join(root, "test/results/scale.tsv")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestScaleTable(t *testing.T) {
	table, err := scaleTable(measured(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| figure | 1000 nodes | 2000 nodes | exponent | aim |", "| webhook: ready | 1.00 s | *4.00 s* | **2.0** | < 3 s |", "| controller: leads | 2.00 s | *4.00 s* | 1.0 | < 3 s |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestScalePicture(t *testing.T) {
	picture, err := drawScale(measured(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(picture, ">webhook: ready (2.0)</text>") || strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
		t.Error(picture)
	}
	if _, err := drawScale(measured(t, "why: wall")); err == nil || !strings.Contains(err.Error(), `no figure "why: wall"`) {
		t.Errorf("without a figure: %v", err)
	}
}
