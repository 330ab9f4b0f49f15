package rulebook_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
)

func open(t *testing.T) rulebook.Book {
	t.Helper()
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	return book
}

var update = flag.Bool("update", false, "rewrite docs/rules.md and docs/rules")

// TestPagesAreCurrent fails when docs/rules.md and the pages in docs/rules differ from the
// tables, and for a page that no kind has.
func TestPagesAreCurrent(t *testing.T) {
	const docs = "../../../docs"
	pages := open(t).Pages()
	stored, err := filepath.Glob(filepath.Join(docs, "rules", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stored {
		if name, _ := filepath.Rel(docs, path); pages[name] == "" {
			t.Errorf("docs/%s: no kind has this page, remove it", name)
		}
	}
	for name, text := range pages {
		path := filepath.Join(docs, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		page, err := os.ReadFile(path)
		if diff := cmp.Diff(string(page), text); err != nil || diff != "" {
			t.Errorf("docs/%s is out of date, run \"make generate\": %v -page +tables:\n%s", name, err, diff)
		}
	}
}

// TestIDs fails when two entries share an ID, since messages name only that.
func TestIDs(t *testing.T) {
	var ids []string
	for _, entry := range open(t) {
		if slices.Contains(ids, entry.ID) {
			t.Errorf("two entries have the ID %s", entry.ID)
		}
		ids = append(ids, entry.ID)
	}
	for _, kind := range []manifest.ProblemKind{
		manifest.UnknownField, manifest.DuplicateKey, manifest.WrongType, manifest.UnknownVersion, manifest.UnknownKind,
	} {
		if id := rulebook.FormRule(kind); !slices.Contains(ids, id) {
			t.Errorf("%s is reported as %s, which has no entry", kind, id)
		}
	}
}

func TestFindNamesWhatIsNear(t *testing.T) {
	_, err := open(t).Find("tolerations-max")
	if err == nil || !strings.Contains(err.Error(), "request-tolerations-max") {
		t.Errorf("got %v, want a hint at request-tolerations-max", err)
	}
}
