package notes_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/image/notes"
)

const changelog = "# Changelog\n\n## [Unreleased]\n\nNew.\n\n## [0.2.0] - 2027-01-02\n\n### Added\n\n- Less, see\n  [operations](docs/operations.md#install) and [Go](https://go.dev).\n\n" +
	"```md\n## [0.1.0]\n[kept](docs/x.md)\n```\n\n## [0.1.0] - 2026-12-01\n\n## [0.1.0-rc.1] - 2026-11-30\n\nFirst.\n"

func TestOf(t *testing.T) {
	const source = "https://git.example.com/steward"
	for version, want := range map[string]string{
		"v0.2.0":      "### Added\n\n- Less, see\n  [operations](https://git.example.com/steward/blob/v0.2.0/docs/operations.md#install) and [Go](https://go.dev).\n\n```md\n## [0.1.0]\n[kept](docs/x.md)\n```\n",
		"v0.1.0-rc.1": "First.\n",
	} {
		if got, err := notes.Of(changelog, version, source); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", version, err, got, want)
		}
	}
	for version, want := range map[string]string{"v0.1.0": "is empty", "v0.3.0": "no section [0.3.0]", "": "no section"} {
		if got, err := notes.Of(changelog, version, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", version, got, err, want)
		}
	}
}

// TestChangelog: the changelog of this repository has the form that releases need.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.Replace(string(text), "## [Unreleased]", "## [0.1.0] - 2027-01-02", 1)
	got, err := notes.Of(renamed, "v0.1.0", "https://git.example.com/steward")
	if err != nil || !strings.Contains(got, "### Added") || strings.Contains(got, "](docs/") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestChanges(t *testing.T) {
	text := "## [0.2.0] - 2027-01-02\n\nNew.\n\n### Added\n\n#### Webhook\n\n- Less `words`, see\n  [operations](docs/a.md#install) and\n  [Go](https://go.dev).\n- Two\n\nNot a change.\n\n### Security\n\n- Three\n" +
		"## [0.1.0] - 2027-01-01\n\n- One\n"
	got, err := notes.Changes(text, "v0.2.0")
	want := []notes.Change{{"added", "Less words, see operations and Go."}, {"added", "Two"}, {"security", "Three"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	if got, err := notes.Changes(text, "v0.1.0"); err == nil || !strings.Contains(err.Error(), "none of the headings") {
		t.Errorf("%+v, %v", got, err)
	}
}
