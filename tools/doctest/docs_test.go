package doctest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// root is the root of the tree, seen from the tests of this package.
const root = "../.."

// generated reports whether a page is written from the tables of the rules, whose own test
// compares them.
func generated(page string) bool {
	return page == "docs/rules.md" || strings.HasPrefix(filepath.ToSlash(page), "docs/rules/")
}

// pages reads all our pages.
func pages(t *testing.T) (all []doctest.Page) {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "test/results/*.md", "charts/*/*.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		page, err := doctest.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		page.Name, _ = filepath.Rel(root, name)
		all = append(all, page)
	}
	if len(all) < 4 {
		t.Fatalf("only %d pages found below %s", len(all), root)
	}
	return all
}

// TestLinks fails for a link that leads to no file of the tree, or to no heading.
func TestLinks(t *testing.T) {
	anchors := map[string][]string{}
	all := pages(t)
	for _, page := range all {
		anchors[page.Name] = page.Headings
	}
	for _, page := range all {
		for _, target := range page.Links() {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, heading, hasHeading := strings.Cut(target, "#")
			name := page.Name
			if file != "" {
				name = filepath.Join(filepath.Dir(page.Name), file)
			}
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: link to %s: there is no %s", page.Name, target, name)
			} else if hasHeading && filepath.Ext(name) != ".go" && !slices.Contains(anchors[name], heading) {
				t.Errorf("%s: link to %s: %s has no heading #%s", page.Name, target, name, heading)
			}
		}
	}
}

// TestExcerpts fails when an excerpt is not found where it comes from.
func TestExcerpts(t *testing.T) {
	for _, page := range pages(t) {
		for _, block := range page.Blocks {
			from := block.Options["from"]
			if slices.Contains([]string{"", "demo", "tree", "floors"}, from) {
				continue
			}
			source, err := os.ReadFile(filepath.Join(root, from))
			if err != nil {
				t.Errorf("%s:%d: %v", page.Name, block.Line, err)
			} else if !strings.Contains(flat(string(source)), flat(block.Text)) {
				t.Errorf("%s:%d: %s does not have this excerpt", page.Name, block.Line, from)
			}
		}
	}
}

// flat is text without indentation and comment signs.
func flat(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "// "))
	}
	return strings.Join(lines, "\n")
}

// TestTree fails for a path of the map that does not exist, and for a folder at the
// top that the map leaves out.
func TestTree(t *testing.T) {
	mapped := map[string]bool{}
	for _, page := range pages(t) {
		for _, block := range page.Blocks {
			if block.Options["from"] != "tree" {
				continue
			}
			for line := range strings.Lines(block.Text) {
				path, _, _ := strings.Cut(line, " ")
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s:%d: %v", page.Name, block.Line, err)
				}
				top, _, _ := strings.Cut(path, "/")
				mapped[top] = true
			}
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() && !strings.HasPrefix(name, ".") && name != "bin" && !mapped[name] {
			t.Errorf("the map of the tree in docs/architecture.md leaves out %s", name)
		}
	}
}

var (
	valuePath = regexp.MustCompile(`^[a-z][A-Za-z]*(\.[a-z][A-Za-z]*)+$`)
	setValue  = regexp.MustCompile(`--set(?:-file|-string)?[ =]([A-Za-z.]+)=`)
	lintChart = regexp.MustCompile(`lint --helm .*`)
	target    = regexp.MustCompile(`\bmake ([a-z-]+)`)
)

// TestValues fails for a value of the chart that is named on a page and not in
// values.yaml.
func TestValues(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "charts/dra-steward/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		if generated(page.Name) {
			continue
		}
		named := page.Code()
		for _, block := range page.Blocks {
			// Those of lint are values of any chart.
			text := lintChart.ReplaceAllString(block.Text, "")
			for _, match := range setValue.FindAllStringSubmatch(text, -1) {
				if !has(values, match[1]) {
					t.Errorf("%s:%d: --set %s: values.yaml has no such value", page.Name, block.Line, match[1])
				}
			}
		}
		for _, name := range named {
			top, _, _ := strings.Cut(name, ".")
			if _, is := values[top]; is && valuePath.MatchString(name) && !has(values, name) {
				t.Errorf("%s: `%s`: values.yaml has no such value", page.Name, name)
			}
		}
	}
}

func has(values map[string]any, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	value, is := values[name]
	if !is || !more {
		return is
	}
	below, _ := value.(map[string]any)
	return has(below, rest)
}

// TestTargets fails for a target of make that a page names and the Makefile lacks.
func TestTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		for _, block := range page.Blocks {
			for _, match := range target.FindAllStringSubmatch(block.Text, -1) {
				if block.Language == "sh" && !strings.Contains(string(makefile), "\n"+match[1]+":") {
					t.Errorf("%s:%d: the Makefile has no target %s", page.Name, block.Line, match[1])
				}
			}
		}
		for _, span := range page.Code() {
			if match := target.FindStringSubmatch(span); match != nil && strings.HasPrefix(span, "make ") &&
				!strings.Contains(string(makefile), "\n"+match[1]+":") {
				t.Errorf("%s: `%s`: the Makefile has no such target", page.Name, span)
			}
		}
	}
}

// TestActions fails for an action that is not pinned by its commit, with the version
// with it: a tag can be moved.
func TestActions(t *testing.T) {
	var texts []string
	workflows, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(workflows) == 0 {
		t.Fatal(workflows, err)
	}
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	for _, page := range pages(t) {
		for _, block := range page.Blocks {
			texts = append(texts, block.Text)
		}
	}
	action, pinned := regexp.MustCompile(`(?m)^\s*(?:- )?uses: .*$`), regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, text := range texts {
		for _, line := range action.FindAllString(text, -1) {
			if !pinned.MatchString(line) {
				t.Errorf("%s: must name a commit, and its version in a comment", strings.TrimSpace(line))
			}
		}
	}
}
