package fix_test

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/lint/fix"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// TestBareNull: a null without quotes is quoted, as after "attributes:".
func TestBareNull(t *testing.T) {
	const head = "# a patch\napiVersion: dra-steward.io/v1alpha1\nkind: ResourceSlicePatch\nmetadata: {name: a}\nspec:\n  devices:\n    attributes:"
	for name, tt := range map[string]struct {
		in, want string
		changes  int
	}{
		"block":             {"\n      x.io/a:\n        null: {} # why\n", "\n      x.io/a:\n        \"null\": {} # why\n", 1},
		"flow":              {" {x.io/a: {null: {}}, x.io/b: {int: 1}}\n", " {x.io/a: {\"null\": {}}, x.io/b: {int: 1}}\n", 1},
		"several":           {" {x.io/a: {null: {}}, x.io/b: {null: {}}} # both\n", " {x.io/a: {\"null\": {}}, x.io/b: {\"null\": {}}} # both\n", 2},
		"without a value":   {"\n      x.io/a:\n        null: # why\n", "\n      x.io/a:\n        \"null\": {} # why\n", 1},
		"another spelling":  {"\n      x.io/a: {Null: {}}\n      x.io/b: {~: {}}\n", "\n      x.io/a: {\"null\": {}}\n      x.io/b: {\"null\": {}}\n", 2},
		"beyond ASCII":      {"\n      x.io/a: {string: \"ä€😀\"}\n      x.io/b: {  null: {}} # ä\n", "\n      x.io/a: {string: \"ä€😀\"}\n      x.io/b: {  \"null\": {}} # ä\n", 1},
		"quoted":            {" {x.io/a: {\"null\": {}}}\n", "", 0},
		"a value":           {" {x.io/a: {string: null}}\n", "", 0},
		"nothing as key":    {" {x.io/a: {: {}}}\n", "", 0},
		"no YAML otherwise": {" {x.io/a: {null: {}}\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			in, want := head+tt.in, head+tt.want
			if tt.want == "" {
				want = in
			}
			for _, ending := range []string{"\n", "\r\n"} {
				for _, second := range []string{"", "---\nkind: Other\n"} {
					in, want := strings.ReplaceAll(in+second, "\n", ending), strings.ReplaceAll(want+second, "\n", ending)
					result := fix.Text(manifest.Reader{}, "patch.yaml", []byte(in))
					if string(result.Text) != want || len(result.Done) != tt.changes {
						t.Errorf("%d changes\ngot  %q\nwant %q", len(result.Done), result.Text, want)
					}
				}
			}
		})
	}
}

// TestNullOfOthers: the null of a file of another program stays as it is, and what is not sure to be read again.
func TestNullOfOthers(t *testing.T) {
	for _, text := range []string{
		"defaults:\n  ~: 5 # none\n", "apiVersion: v1\nkind: ConfigMap\ndata:\n  null: a\n", "apiVersion: other.example.com/v1\nkind: Thing\nspec: {null: {}}\n",
		"apiVersion: dra-steward.io/v1alpha1\nkind: ResourceSlicePatch\nspec:\n  null: &a\n  b: *a\n",
	} {
		if result := fix.Text(manifest.Reader{}, "a.yaml", []byte(text)); string(result.Text) != text {
			t.Errorf("%q became %q", text, result.Text)
		}
	}
}

// TestBareNullSaysWhere is what lint shows.
func TestBareNullSaysWhere(t *testing.T) {
	const text = "kind: Other\n---\napiVersion: dra-steward.io/v1alpha1\nkind: ResourceSlicePatch\nspec:\n  devices:\n    attributes:\n      x.io/a:\n        null: {}\n"
	var got []string
	for _, err := range (manifest.Reader{}).Read("patch.yaml", strings.NewReader(text)) {
		if err != nil {
			got = append(got, err.Error())
		}
	}
	want := `patch.yaml:9:9: YAML reads a bare null as no key at all, and kubectl refuses it: write "null": {}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
