package doctest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

// maxFiles is how many files a reader of a walk enters at most.
const maxFiles = 6

var codeLink = regexp.MustCompile(`\]\(([^)#\s]+\.go)#(\w+)\)`)

// TestCodeLinks fails for a link FILE.go#Name whose file declares no function or type of
// that name.
func TestCodeLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range codeLink.FindAllStringSubmatch(page.Prose, -1) {
			file, name := filepath.Join(filepath.Dir(page.Name), match[1]), match[2]
			source, err := os.ReadFile(filepath.Join(root, file))
			declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + name + `\b`)
			if err != nil || !declared.Match(source) {
				t.Errorf("%s: link to %s in %s: not declared there (%v)", page.Name, name, file, err)
			}
		}
	}
}

var testLink = regexp.MustCompile(`\[((?:Test|Fuzz|Benchmark|Example)\w*)\]\(([^)#\s]+)\)`)

// TestTestLinks fails for a link with the name of a test as its text, to a file that has no
// such test.
func TestTestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, match := range testLink.FindAllStringSubmatch(page.Prose, -1) {
			name, file := match[1], filepath.Join(filepath.Dir(page.Name), match[2])
			source, err := os.ReadFile(filepath.Join(root, file))
			declared := regexp.MustCompile(`(?m)^func ` + name + `\(`)
			if err != nil || !strings.HasSuffix(file, "_test.go") || !declared.Match(source) {
				t.Errorf("%s: link to %s in %s: there is no such test (%v)", page.Name, name, file, err)
			}
		}
	}
}

// TestRequirements fails for a requirement in docs/keps.md without a test, unless its row
// says so.
func TestRequirements(t *testing.T) {
	page, err := doctest.Read(filepath.Join(root, "docs/keps.md"))
	if err != nil {
		t.Fatal(err)
	}
	requirements := 0
	for line := range strings.Lines(page.Prose) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| requirement |") || strings.HasPrefix(line, "| --- |") {
			continue
		}
		requirements++
		if len(cells) != 4 {
			t.Errorf("%d cells, want 4: %s", len(cells), line)
		} else if !testLink.MatchString(cells[2]) && !strings.Contains(cells[2], "not tested") {
			t.Errorf("no test, and not the words \"not tested\": %s", line)
		}
	}
	if requirements == 0 {
		t.Error("docs/keps.md has no requirements")
	}
}

// TestWalks fails for a walk of docs/architecture.md that enters too many files.
func TestWalks(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	walks := strings.Split(string(data), "\n## From ")[1:]
	if len(walks) != 3 {
		t.Errorf("%d walks, want 3", len(walks))
	}
	for _, walk := range walks {
		title, _, _ := strings.Cut(walk, "\n")
		files := map[string]bool{}
		for _, match := range codeLink.FindAllStringSubmatch(walk, -1) {
			files[match[1]] = true
		}
		if len(files) == 0 || len(files) > maxFiles {
			t.Errorf("the walk from %s enters %d files, want at most %d", title, len(files), maxFiles)
		}
	}
}
