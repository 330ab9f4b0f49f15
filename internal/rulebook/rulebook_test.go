package rulebook_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rulebook"
)

func open(t *testing.T) rulebook.Book {
	t.Helper()
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// TestPageIsCurrent fails when docs/rules.md says something else than the tables.
func TestPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), open(t).Markdown()); diff != "" {
		t.Errorf("docs/rules.md is out of date, run \"make generate\": -page +tables:\n%s", diff)
	}
}

// TestIDs fails when two entries share an ID, since messages name only that.
func TestIDs(t *testing.T) {
	var ids []string
	for _, entry := range open(t) {
		if slices.Contains(ids, entry.ID) {
			t.Errorf("%s stands for two things", entry.ID)
		}
		ids = append(ids, entry.ID)
	}
	for _, kind := range []manifest.ProblemKind{
		manifest.UnknownField, manifest.DuplicateKey, manifest.WrongType, manifest.UnknownVersion, manifest.UnknownKind,
	} {
		if id := rulebook.FormRule(kind); !slices.Contains(ids, id) {
			t.Errorf("%s is found as %s, which nothing explains", kind, id)
		}
	}
}

func TestFindNamesWhatIsNear(t *testing.T) {
	_, err := open(t).Find("tolerations-max")
	if err == nil || !strings.Contains(err.Error(), "request-tolerations-max") {
		t.Errorf("got %v, want a hint at request-tolerations-max", err)
	}
}
