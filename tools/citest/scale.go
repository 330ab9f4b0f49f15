package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// scaleColumns are those of the results of test/scale. The aim is for the largest cluster.
var scaleColumns = []string{"figure", "nodes", "value", "unit", "grows", "aim", "commit", "date"}

// A scaled figure was measured in clusters of several sizes.
type scaled struct {
	name, unit, aim string
	// grows says that the figure is expected to grow with the cluster.
	grows  bool
	values map[int]float64
}

// readScale returns the figures in the order of their names, and the numbers of nodes.
func readScale(root string) (figures []*scaled, sizes []int, err error) {
	results, err := readTable(filepath.Join(root, "test/results/scale.tsv"), scaleColumns...)
	if err != nil {
		return nil, nil, err
	}
	all := map[string]*scaled{}
	for _, row := range results.rows {
		nodes, err := strconv.Atoi(row[1])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: nodes %q: %w", results.file, row[0], row[1], err)
		}
		value, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s with %d nodes: value %q: %w", results.file, row[0], nodes, row[2], err)
		}
		if all[row[0]] == nil {
			all[row[0]] = &scaled{name: row[0], unit: row[3], grows: row[4] == "yes", aim: row[5], values: map[int]float64{}}
		}
		all[row[0]].values[nodes] = value
		sizes = append(sizes, nodes)
	}
	slices.Sort(sizes)
	figures = slices.SortedFunc(maps.Values(all), func(a, b *scaled) int { return cmp.Compare(a.name, b.name) })
	return figures, slices.Compact(sizes), nil
}

// exponent is that of the growth between the last two sizes: 1 is linear. It is false for fewer sizes.
func (f *scaled) exponent() (float64, bool) {
	sizes := slices.Sorted(maps.Keys(f.values))
	if !f.grows || len(sizes) < 2 {
		return 0, false
	}
	before, last := sizes[len(sizes)-2], sizes[len(sizes)-1]
	if f.values[before] <= 0 || f.values[last] <= 0 {
		return 0, false
	}
	return math.Log(f.values[last]/f.values[before]) / math.Log(float64(last)/float64(before)), true
}

// misses reports whether a value is not what is aimed at: "< 512 MiB", "≤ 1.3", "≥ 0.9" or "0".
func misses(value float64, aim string) bool {
	words := strings.Fields(strings.ReplaceAll(aim, ",", ""))
	if len(words) == 0 {
		return false
	}
	sign, number := "≤", words[0]
	if len(words) > 1 {
		sign, number = words[0], words[1]
	}
	number, _, _ = strings.Cut(number, "/")
	limit, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return false
	case sign == "≥":
		return value < limit
	case sign == "<":
		return value >= limit
	}
	return value > limit
}

// superlinear is the exponent above which a figure grows faster than the cluster.
const superlinear = 1.1

// scaleTable is the table of all figures. It has misses in italics and exponents that are too high in bold.
func scaleTable(root string) (string, error) {
	figures, sizes, err := readScale(root)
	if err != nil {
		return "", err
	}
	columns := []string{"figure"}
	for _, size := range sizes {
		columns = append(columns, fmt.Sprintf("%d nodes", size))
	}
	var rows [][]string
	for _, f := range figures {
		row := []string{f.name}
		for i, size := range sizes {
			value, known := f.values[size]
			text := ""
			if known {
				text = strings.TrimSpace(short(value) + " " + f.unit)
			}
			if known && i == len(sizes)-1 && misses(value, f.aim) {
				text = "*" + text + "*"
			}
			row = append(row, text)
		}
		growth := ""
		if exponent, known := f.exponent(); known {
			if growth = fmt.Sprintf("%.1f", exponent); exponent > superlinear {
				growth = "**" + growth + "**"
			}
		}
		rows = append(rows, append(row, growth, f.aim))
	}
	return markdown(append(columns, "exponent", "aim"), rows), nil
}

func short(value float64) string {
	digits := 0
	switch size := math.Abs(value); {
	case size < 10:
		digits = 2
	case size < 100:
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}
