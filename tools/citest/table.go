package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A table is a file of rows whose columns are separated by tabs. The first row has their names.
// One row is one line, so that results of several branches merge.
type table struct {
	file    string
	columns []string
	rows    [][]string
}

// readTable reads a table. A file that does not exist is a table without rows.
func readTable(file string, columns ...string) (*table, error) {
	t := &table{file: file, columns: columns}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		row := strings.Split(line, "\t")
		switch {
		case i == 0 && !slices.Equal(row, columns):
			return nil, fmt.Errorf("%s:1: has the columns %q, want %q", file, row, columns)
		case len(row) != len(columns):
			return nil, fmt.Errorf("%s:%d: has %d columns, want %d", file, i+1, len(row), len(columns))
		case i > 0:
			t.rows = append(t.rows, row)
		}
	}
	return t, nil
}

// add appends a row.
func (t *table) add(row ...string) {
	for i := range row {
		row[i] = strings.Join(strings.Fields(row[i]), " ")
	}
	t.rows = append(t.rows, row)
}

// replace puts a row in the place of the one with the same first columns, or appends it.
func (t *table) replace(keys int, row ...string) {
	t.rows = slices.DeleteFunc(t.rows, func(old []string) bool { return slices.Equal(old[:keys], row[:keys]) })
	t.add(row...)
}

// write writes the rows in order.
func (t *table) write() error {
	slices.SortStableFunc(t.rows, slices.Compare)
	lines := []string{strings.Join(t.columns, "\t")}
	for _, row := range t.rows {
		lines = append(lines, strings.Join(row, "\t"))
	}
	if err := os.MkdirAll(filepath.Dir(t.file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(t.file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// markdown writes rows as a table of a page.
func markdown(columns []string, rows [][]string) string {
	var page strings.Builder
	row := func(cells []string) { fmt.Fprintf(&page, "| %s |\n", strings.Join(cells, " | ")) }
	row(columns)
	row(slices.Repeat([]string{"---"}, len(columns)))
	for _, cells := range rows {
		row(cells)
	}
	return page.String()
}

// A Skip is a test that may be skipped in CI.
type Skip struct {
	Package string // its import path
	Test    *regexp.Regexp
	Reason  string
}

// readSkips reads lines of a package, a pattern for whole test names, and the
// reason. Empty lines and lines that start with # say nothing.
func readSkips(name string) ([]Skip, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("list of tests that may be skipped: %w", err)
	}
	var skips []Skip
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%s:%d: want: package, pattern of tests, reason", name, number)
		}
		pattern, err := regexp.Compile("^(" + words[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		skips = append(skips, Skip{words[0], pattern, strings.Join(words[2:], " ")})
	}
	return skips, nil
}

func find(skips []Skip, pkg, test string) (listed bool, reason string) {
	for _, s := range skips {
		if s.Package == pkg && s.Test.MatchString(test) {
			return true, s.Reason
		}
	}
	return false, ""
}
