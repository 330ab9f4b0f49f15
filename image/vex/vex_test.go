package vex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/image/vex"
)

// govulncheck is what v1.9.0 wrote for a program that imports strings and a database in which strings.Title is
// vulnerable.
const govulncheck = `{
  "@context": "https://openvex.dev/ns/v0.2.0",
  "@id": "govulncheck/vex:2c69a4923487847ff593610bd67ad7269977d3f53327b0e3b9896c8bdc8ca146",
  "author": "Unknown Author",
  "timestamp": "2026-11-25T14:01:06.436179183Z",
  "version": 1,
  "tooling": "https://pkg.go.dev/golang.org/x/vuln/cmd/govulncheck",
  "statements": [
    {
      "vulnerability": {"@id": "https://pkg.go.dev/vuln/GO-2026-9999", "name": "GO-2026-9999", "description": "Made up", "aliases": ["CVE-2026-0"]},
      "products": [{"@id": "Unknown Product", "subcomponents": [{"@id": "pkg:golang/stdlib@v1.26.8"}]}],
      "status": "not_affected",
      "justification": "vulnerable_code_not_in_execute_path",
      "impact_statement": "Govulncheck determined that the vulnerable code isn't called"
    }
  ]
}`

const module, version, author = "example.com/steward", "v0.2.0", "The authors"

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openvex.json")
	if written, err := vex.Write(file, []byte(govulncheck), module, version, author); !written || err != nil {
		t.Fatal(written, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	const product, id = "pkg:golang/example.com/steward@v0.2.0", "govulncheck/vex:2c69a4923487847ff593610bd67ad7269977d3f53327b0e3b9896c8bdc8ca146"
	filled := strings.NewReplacer("Unknown Author", author, "Unknown Product", product, id, id+":"+product).Replace(govulncheck)
	for text, into := range map[string]*any{string(text): &got, filled: &want} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	is, _ := json.Marshal(got)
	should, _ := json.Marshal(want)
	if string(is) != string(should) {
		t.Errorf("%s\nwant\n%s", is, should)
	}
}

// TestWriteNothing: there is no document without a statement, and none for what affects the release.
func TestWriteNothing(t *testing.T) {
	for text, want := range map[string]string{
		`{"@context": "https://openvex.dev/ns/v0.2.0", "version": 1}`:   "",
		strings.Replace(govulncheck, `"not_affected"`, `"affected"`, 1): "is affected by GO-2026-9999",
		`{"config": {"protocol_version": "v1.0.0"}}`:                    "-format openvex",
		"": "-format openvex",
	} {
		file := filepath.Join(t.TempDir(), "openvex.json")
		written, err := vex.Write(file, []byte(text), module, version, author)
		if written || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, written, err, want)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
