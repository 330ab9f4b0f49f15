package manifest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// read returns one line per document, "index line kind/name", and per error.
func read(text string, file string) (result []string) {
	for document, err := range (manifest.Reader{MaxBytes: 4 << 20}).Read(file, strings.NewReader(text)) {
		if err != nil {
			result = append(result, err.Error())
			continue
		}
		result = append(result, fmt.Sprintf("%d %d %s/%s", document.Index, document.Line, document.Kind, document.Name))
	}
	return result
}

func TestRead(t *testing.T) {
	const a, b = "kind: A\nmetadata: {name: a}\n", "kind: B\nmetadata: {name: b}\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":                  {"", nil},
		"comments only":          {"# nothing\n---\n  # nothing\n---\n\n", nil},
		"null":                   {"null\n---\n~\n---\n" + a, []string{"1 5 A/a"}},
		"two":                    {a + "---\n" + b, []string{"1 1 A/a", "2 4 B/b"}},
		"leading separator":      {"---\n" + a, []string{"1 2 A/a"}},
		"comment first":          {"# Licence\n\n" + a, []string{"1 3 A/a"}},
		"separator with comment": {a + "--- # Source: a.yaml\n" + b, []string{"1 1 A/a", "2 4 B/b"}},
		"separator with spaces":  {a + "---  \t\n" + b, []string{"1 1 A/a", "2 4 B/b"}},
		"last separator":         {a + "---", []string{"1 1 A/a"}},
		"no line break at end":   {a + "---\nkind: B", []string{"1 1 A/a", "2 4 B/"}},
		"document end":           {a + "...\n---\n" + b + "...\n", []string{"1 1 A/a", "2 5 B/b"}},
		"text after document end": {a + "...\n# comment\n" + b + "---\n" + a, []string{"1 1 A/a",
			`x.yaml:5:1: kubectl ignores what follows "..." up to the next "---": begin the next document with "---"`, "3 8 A/a"}},
		"text on the separator": {"--- {kind: A}\n---\n" + b, []string{
			`x.yaml:1:1: kubectl accepts nothing but a comment behind "---" on the same line: put the document on the next one`, "2 3 B/b"}},
		"windows":           {"\uFEFF" + strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"1 1 A/a", "2 4 B/b"}},
		"json":              {`{"kind":"A"}`, []string{"1 1 A/"}},
		"json values":       {"{\"kind\":\"A\"}\n\n {\"kind\":\"B\"}{\"kind\":\"C\"}", []string{"1 1 A/", "2 3 B/", "3 3 C/"}},
		"json and yaml":     {"{\"kind\":\"A\"}\n---\n" + b, []string{"1 1 A/", "2 3 B/b"}},
		"flow style":        {"{kind: A, metadata: {name: a}}", []string{"1 1 A/a"}},
		"not an object":     {"- 1\n---\nhello\n", []string{"1 1 /", "2 3 /"}},
		"odd types":         {"kind: 1\nmetadata: []\n", []string{"1 1 /"}},
		"syntax error":      {a + "---\nkind: B\n  metadata: x\n---\n" + a, []string{"1 1 A/a", "x.yaml:5:11: not YAML: mapping values are not allowed in this context", "3 7 A/a"}},
		"missing bracket":   {"kind: A\nx: [1, 2\ny: 3\n", []string{"x.yaml:3:1: not YAML: did not find expected ',' or ']'"}},
		"tab":               {"kind: A\nx:\n\ty: 1\n", []string{"x.yaml:3:1: not YAML: found character that cannot start any token"}},
		"control character": {"kind: A\nx: a\x01b\n", []string{"x.yaml:2:5: not YAML: control characters are not allowed"}},
		"not UTF-8":         {"kind: A\nx: ä\xff\n---\n" + b, []string{"x.yaml:2:5: not UTF-8 text (byte 0xff): save the file as UTF-8", "2 4 B/b"}},
		"json error":        {"{\"kind\": \"A\"}\n{\"kind\": x}", []string{"1 1 A/", "x.yaml:2:10: not JSON: invalid character 'x' looking for beginning of value"}},
		"directive":         {"%YAML 1.2\n---\n" + a, []string{`x.yaml:1:1: not YAML: kubectl does not accept directives such as "%YAML 1.2": remove them`, "2 3 A/a"}},
		"lost by indentation": {"  kind: A\nmetadata: {name: a}\n", []string{
			"x.yaml:2:1: not YAML: did not find expected <document start>; kubectl ignores the rest of the document"}},
		"list": {"apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata: {name: a}\n- kind: B\n", []string{"1 4 A/a", "2 6 B/"}},
		"typed list": {"kind: ResourceClaimList\napiVersion: resource.k8s.io/v1\nitems:\n- metadata:\n    name: a\n- {}\n",
			[]string{"1 4 ResourceClaim/a", "2 6 ResourceClaim/"}},
		"list in list":     {"kind: List\nitems:\n- kind: List\n  items:\n  - kind: A\n  - 1\n- kind: B\n", []string{"1 5 A/", "x.yaml:6:5: an item of a list must be an object", "3 7 B/"}},
		"empty list":       {"kind: List\nitems: []\n", nil},
		"two lists in one": {"kind: List\nitems: []\nitems: []\n", []string{`x.yaml:3:1: duplicate key "items" in the list, of which kubectl reads only the last one: merge them`}},
		"unknown alias":    {"kind: A\nb: &b 1\nc: *d\n", []string{"x.yaml:3:4: not YAML: unknown anchor 'd' referenced"}},
		"endless alias":    {"kind: A\na: &a\n  b: *a\n", []string{`x.yaml:3:6: the value of anchor "a" contains itself`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(test.text, "x.yaml"); !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

// TestReadHostile holds what may cost much time or memory: each must be refused
// at the named place soon, and the document behind it must be read.
func TestReadHostile(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 20; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	text := "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
	for name, test := range map[string]struct{ text, want string }{
		"billion laughs":      {laughs, "with this alias the aliases of the document add more than 4194304 bytes"},
		"long text, repeated": {text, "x.yaml:2:"},
		"aliases in objects":  {"a: &a " + strings.Repeat("x", 100_000) + "\nb:\n" + strings.Repeat("- {c: {d: *a}}\n", 1000), "x.yaml:44:11: with this alias the aliases of the document add more than 4194304 bytes"},
		"deep brackets":       {"a: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "x.yaml:1:1003: nested more than 1000 levels deep"},
		"deeper brackets":     {"a: " + strings.Repeat("[", 100_000), "x.yaml:1:1: not YAML: exceeded max depth of 10000"},
		"deep dashes":         {strings.Repeat("- ", 100_000) + "x", "x.yaml:1:1: not YAML: exceeded max depth of 10000"},
		"deep JSON":           {`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}", "x.yaml:1:1005: nested more than 1000 levels deep"},
		"deeper JSON":         {`{"a":` + strings.Repeat("[", 100_000), "x.yaml:1:1: not YAML: exceeded max depth of 10000"},
		"too large":           {"a: " + strings.Repeat("x\n  ", 2_000_000), "x.yaml:1:1: the document is larger than 4194304 bytes: split it, or let lint read more with --max-document-size"},
		"too long a line":     {"a: " + strings.Repeat("x", 5_000_000), "x.yaml:1:1: the document is larger than 4194304 bytes: split it, or let lint read more with --max-document-size"},
		"lists in lists":      {strings.Repeat(`{"kind":"List","items":[`, 400) + strings.Repeat("]}", 400), "x.yaml:1:193: more than 8 lists in each other"},
		"long separator":      {"--- " + strings.Repeat("x", 5_000_000), "x.yaml:1:1: kubectl accepts nothing but a comment"},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(test.text+"\n---\nkind: B\n", "x.yaml")
			if len(got) != 2 || !strings.Contains(got[0], test.want) || !strings.HasSuffix(got[1], " B/") {
				t.Errorf("got %.300q, want %q and the next document", got, test.want)
			}
		})
	}
}

// TestLongLines guards against time that grows with the square of a line's
// length: minified JSON is one line. It would then not end before the test's
// timeout.
func TestLongLines(t *testing.T) {
	for name, text := range map[string]string{
		"one value":   `{"ä": [` + strings.Repeat("1,", 200_000) + "1]}",
		"many values": strings.Repeat("{}", 30_000),
		"odd breaks":  "ä:\n" + strings.Repeat("- x\r", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			for document, err := range (manifest.Reader{}).Read("x", strings.NewReader(text)) {
				if err != nil {
					t.Fatal(err)
				}
				document.Position("ä[100]")
			}
		})
	}
}

func TestReadJSONFile(t *testing.T) {
	want := []string{"x.json:1:7: not JSON: invalid character 'A' looking for beginning of value"}
	if got := read("{kind: A}", "x.json"); !strings.HasPrefix(got[0], "x.json:1:2: not JSON") {
		t.Errorf("got %q, want an error like %q", got, want)
	}
	want = []string{`x.json:2:12: the JSON value is not complete: unexpected EOF`}
	if got := read("{\n \"kind\": \"A", "x.json"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadFailure(t *testing.T) {
	broken := errors.New("cable broken")
	in := io.MultiReader(strings.NewReader("kind: A\n---\nkind: B\n"), iotest.ErrReader(broken))
	var kinds []string
	var failure error
	for document, err := range (manifest.Reader{}).Read("x.yaml", in) {
		if err != nil {
			failure = err
			continue
		}
		kinds = append(kinds, document.Kind)
	}
	if !errors.Is(failure, broken) || failure.Error() != "x.yaml: cable broken" || !slices.Equal(kinds, []string{"A"}) {
		t.Errorf("got %q and %v", kinds, failure)
	}
}

func TestRaw(t *testing.T) {
	for text, want := range map[string]string{
		"a: yes\nb: on\nc: \"yes\"\nd: 0x10\ne: 010\nf: 1.50\ng: 9007199254740993\nh: ~": `{"a":true,"b":true,"c":"yes","d":16,"e":8,"f":1.5,"g":9007199254740993,"h":null}`,
		"1: a\ntrue: b\n":                                                     `{"1":"a","true":"b"}`,
		"x: &x {a: 1}\nz: {<<: *x, b: 2}":                                     `{"x":{"a":1},"z":{"a":1,"b":2}}`,
		`{"a": 1.50, "a": 2}`:                                                 `{"a": 1.50, "a": 2}`,
		"kind: XList\napiVersion: g/v1\nitems: [{a: 1}]":                      `{"apiVersion":"g/v1","kind":"X","a":1}`,
		`{"kind": "XList", "apiVersion": "g/v1", "items": [{ }]}`:             `{"apiVersion":"g/v1","kind":"X"}`,
		`{"kind": "List", "apiVersion": "v1", "items": [{"kind": "A"}]}`:      `{"kind": "A"}`,
		`{"kind": "XList", "apiVersion": "g/v1", "items": [{"kind": "Odd"}]}`: `{"apiVersion":"g/v1","kind": "Odd"}`,
	} {
		for document, err := range (manifest.Reader{}).Read("x", strings.NewReader(text)) {
			if err != nil || string(document.Raw) != want {
				t.Errorf("%q: got %s, %v, want %s", text, document.Raw, err, want)
			}
		}
	}
}

func TestFiles(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"b.yml", "a.yaml", "c.JSON", "notes.txt", "sub/d.yaml", ".git/e.yaml", "sub/.cache/f.yaml", "other"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("kind: A"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"g.yaml": "other", "loop.yaml": ".", "gone.yaml": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	for _, test := range []struct{ args, want []string }{
		{[]string{"."}, []string{"a.yaml", "b.yml", "c.JSON", "g.yaml", "error: gone.yaml: is a link to a file that does not exist, and is not read: remove the link", "sub/d.yaml"}},
		{[]string{"notes.txt", "-", "sub"}, []string{"notes.txt", "-", "sub/d.yaml"}},
		{[]string{".git"}, []string{".git/e.yaml"}},
		{[]string{"missing", "sub"}, []string{"error: missing: no such file or directory", "sub/d.yaml"}},
		{nil, nil},
	} {
		var got []string
		for file, err := range manifest.Files(test.args...) {
			if err != nil {
				file = "error: " + err.Error()
			}
			got = append(got, filepath.ToSlash(file))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}

func TestWalk(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "a.yaml")
	if err := os.WriteFile(file, []byte("kind: A"), 0o644); err != nil {
		t.Fatal(err)
	}
	reader := manifest.Reader{Stdin: strings.NewReader("kind: B")}
	var got []string
	for document, err := range reader.Walk("missing", folder, "-") {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, document.File+" "+document.Kind)
	}
	want := []string{"missing: no such file or directory", file + " A", "<stdin> B"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range reader.Walk(folder, folder) {
		break
	}
}

// TestDump: a dump is read up to its size, while aliases make no more of it than of other documents.
func TestDump(t *testing.T) {
	reader := manifest.Reader{MaxBytes: manifest.DumpBytes}
	long := strings.Repeat("x", 17<<20)
	for text, want := range map[string]string{
		"kind: A\na: " + long:                          "",
		"kind: A\na: &a " + long + "\nb: *a\n":         "with this alias the aliases of the document add more than",
		"kind: A\na: &a " + long[:1<<20] + "\nb: *a\n": "",
		"kind: A\na: &a 1\nb: [*a, " + long + "]\n":    "",
	} {
		for _, err := range reader.Read("x.yaml", strings.NewReader(text)) {
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%.20s: %.200v, want %q", text, err, want)
			}
		}
	}
}
