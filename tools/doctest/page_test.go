package doctest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dra-steward/dra-steward/tools/doctest"
)

const page = "# A page\n\nSee [it](b.md#there), not `[this](x)`, and `limits.x`.\n" +
	"```console\n$ echo a\na\n$ true\n```\n" +
	"## Twice, `really`!\n## Twice, really\n" +
	"```go from=a_test.go\nx()\n```\n"

func TestParse(t *testing.T) {
	got, err := doctest.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	want := doctest.Page{
		Blocks: []doctest.Block{
			{Language: "console", Options: map[string]string{}, Text: "$ echo a\na\n$ true\n", Line: 5},
			{Language: "go", Options: map[string]string{"from": "a_test.go"}, Text: "x()\n", Line: 12},
		},
		Headings: []string{"a-page", "twice-really", "twice-really-1"},
		Prose:    "# A page\n\nSee [it](b.md#there), not `[this](x)`, and `limits.x`.\n## Twice, `really`!\n## Twice, really\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b.md#there"}, got.Links()); diff != "" {
		t.Errorf("links: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"[this](x)", "limits.x", "really"}, got.Code()); diff != "" {
		t.Errorf("code: -want +got:\n%s", diff)
	}
	commands := []doctest.Command{{Line: "echo a", Output: "a\n", At: 5}, {Line: "true", At: 7}}
	if diff := cmp.Diff(commands, got.Blocks[0].Commands()); diff != "" {
		t.Errorf("commands: -want +got:\n%s", diff)
	}
}

func TestFenceWithoutEnd(t *testing.T) {
	if _, err := doctest.Parse("text\n```sh\nmake\n"); err == nil {
		t.Error("accepted")
	}
}
