package doctest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/tools/depcheck"
	"github.com/dra-steward/dra-steward/tools/doctest"
)

// TestMap fails for a package below pkg, or a module, that the map of the tree lacks.
func TestMap(t *testing.T) {
	var mapped []string
	for line := range strings.Lines(blockFrom(t, "docs/architecture.md", "tree").Text) {
		path, _, _ := strings.Cut(line, " ")
		mapped = append(mapped, strings.TrimSuffix(path, "/"))
	}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, name)
		path = filepath.ToSlash(path)
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || path == "bin") {
			return filepath.SkipDir
		}
		isModule := entry.Name() == "go.mod" && path != "go.mod"
		isPackage := entry.IsDir() && filepath.ToSlash(filepath.Dir(path)) == "pkg"
		if isModule {
			path = filepath.ToSlash(filepath.Dir(path))
		}
		if (isModule || isPackage) && !slices.Contains(mapped, path) {
			t.Errorf("docs/architecture.md: the map of the tree lacks %s/", path)
		}
		return nil
	})
	if err != nil || len(mapped) == 0 {
		t.Fatal(len(mapped), err)
	}
}

// TestFloors compares the layers in docs/architecture.md with the table of depcheck.
func TestFloors(t *testing.T) {
	block := blockFrom(t, "docs/architecture.md", "floors")
	if want := floors(depcheck.Packages); block.Text != want {
		if *update {
			replace(t, "docs/architecture.md", block.Text, want)
			return
		}
		t.Errorf("docs/architecture.md: -page +table (go test . -run TestFloors -update rewrites it):\n%s", cmp.Diff(block.Text, want))
	}
}

// floors writes the packages that ship, by floor, the highest first.
func floors(packages map[string]depcheck.Package) string {
	byFloor := map[int][]string{}
	for path, p := range packages {
		if !slices.Contains(p.Importers, "(tests)") {
			byFloor[p.Floor] = append(byFloor[p.Floor], path)
		}
	}
	const width = 88
	var text strings.Builder
	for floor := len(byFloor); floor > 0; floor-- {
		slices.Sort(byFloor[floor])
		line := fmt.Sprintf("floor %d", floor)
		for _, path := range byFloor[floor] {
			if len(line)+2+len(path) > width {
				text.WriteString(line + "\n")
				line = "       "
			}
			line += "  " + path
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// TestDecisions compares the list of the decisions with the pages and their titles.
func TestDecisions(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/decisions/0*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	var want strings.Builder
	want.WriteString("| | |\n| --- | --- |\n")
	for _, name := range pages {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base, number := filepath.Base(name), filepath.Base(name)[:4]
		heading, _, _ := strings.Cut(string(data), "\n")
		title, is := strings.CutPrefix(heading, "# "+number+": ")
		if !is {
			t.Errorf("docs/decisions/%s: the title is %q, it has to begin with %q", base, heading, "# "+number+": ")
		}
		fmt.Fprintf(&want, "| [%s](%s) | %s |\n", number, base, title)
	}
	const page = "docs/decisions/README.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n\n| | |")
	list = "| | |" + list
	if list != want.String() {
		if *update {
			replace(t, page, list, want.String())
			return
		}
		t.Errorf("%s: -list +pages (go test . -run TestDecisions -update rewrites it):\n%s", page, cmp.Diff(list, want.String()))
	}
}

// blockFrom returns the block of a page with that option from.
func blockFrom(t *testing.T, page, from string) doctest.Block {
	t.Helper()
	read, err := doctest.Read(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range read.Blocks {
		if block.Options["from"] == from {
			return block
		}
	}
	t.Fatalf("%s has no block from=%s", page, from)
	return doctest.Block{}
}

func replace(t *testing.T, page, old, with string) {
	t.Helper()
	name := filepath.Join(root, page)
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(strings.Replace(string(text), old, with, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
