package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writePages writes the tables of recorded results into the pages of a tree.
func writePages(root string) error {
	pages, err := renderPages(root)
	if err != nil {
		return err
	}
	for file, text := range pages {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// renderPages returns the pages with the tables of recorded results, by file.
func renderPages(root string) (map[string]string, error) {
	r, err := openRecorder(root, "")
	if err != nil {
		return nil, err
	}
	runs, err := readFlakes(root)
	if err != nil {
		return nil, err
	}
	measured, err := labTables(root)
	if err != nil {
		return nil, err
	}
	attacks, err := readTable(filepath.Join(root, "test/results/thresholds.tsv"), "attack", "pods evicted", "promise", "reason")
	if err != nil {
		return nil, err
	}
	steps, err := suite("long", root)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, one := range append(measured,
		pageTable{"test/results/README.md", "parts", r.partTable(steps)},
		pageTable{"test/results/README.md", "flakes", flakeTable(runs)},
		pageTable{"docs/compatibility.md", "features", r.matrix()},
		pageTable{"docs/taints.md", "thresholds", markdown(attacks.columns, attacks.rows)},
	) {
		file := filepath.Join(root, one.page)
		text, read := pages[file]
		if !read {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if pages[file], err = between(text, one.name, one.table); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	pages[filepath.Join(root, scalePicture)], err = drawScale(root)
	return pages, err
}

// A pageTable is a table of a page, behind the comment with its name.
type pageTable struct{ page, name, table string }

// labTables returns the tables of the lab book.
func labTables(root string) ([]pageTable, error) {
	const page = "test/results/performance-lab.md"
	evictions, err := readEvictions(root)
	if err != nil {
		return nil, err
	}
	drains, err := readDrains(root)
	if err != nil {
		return nil, err
	}
	histories, err := readPatches(root)
	if err != nil {
		return nil, err
	}
	performance, err := performanceTable(root)
	if err != nil {
		return nil, err
	}
	sizes, err := scaleTable(root)
	return []pageTable{
		{page, "scale", sizes},
		{page, "evictions", campaignTable(evictions)},
		{page, "drains", campaignTable(drains)},
		{page, "patches", campaignTable(histories)},
		{page, "scheduler_perf", performance},
	}, err
}

// between puts a table after its comment, in the place of the lines up to the next empty one.
func between(text, name, table string) (string, error) {
	comment := "<!-- " + name + ": go run ./tools/citest pages -->\n\n"
	before, after, found := strings.Cut(text, comment)
	if !found {
		return "", fmt.Errorf("has no line %q", strings.TrimSpace(comment))
	}
	_, rest, _ := strings.Cut(after, "\n\n")
	return before + comment + table + "\n" + rest, nil
}

// partTable is the table of the parts of the long suite, from what was recorded.
func (r *recorder) partTable(parts []step) string {
	var rows [][]string
	for _, part := range parts {
		i := slices.IndexFunc(r.parts.rows, func(row []string) bool { return row[0] == part.name })
		if i < 0 {
			rows = append(rows, []string{part.name, "", "", "", "", "not recorded"})
			continue
		}
		row := slices.Clone(r.parts.rows[i])
		row[3] = "`" + row[3] + "`"
		rows = append(rows, row)
	}
	return markdown([]string{"part", "minutes", "date", "commit", "load", "result"}, rows)
}
