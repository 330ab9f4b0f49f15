package doctest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
