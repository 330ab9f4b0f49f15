package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestInOrder: results come in the order of the items, several are worked on at once, and
// few are started before the reader of the results needs them.
func TestInOrder(t *testing.T) {
	const workers, items = 4, 1000
	var taken, busy, most atomic.Int32
	numbers := func(yield func(int) bool) {
		for i := range items {
			taken.Add(1)
			if !yield(i) {
				return
			}
		}
	}
	both := make(chan struct{})
	square := func(i int) int {
		now := busy.Add(1)
		defer busy.Add(-1)
		for high := most.Load(); now > high && !most.CompareAndSwap(high, now); high = most.Load() {
		}
		if i == 0 {
			<-both
		}
		if i == 1 {
			close(both)
		}
		return i * i
	}
	next := 0
	for got := range inOrder(iter.Seq[int](numbers), workers, square) {
		if got != next*next {
			t.Fatalf("got %d, want %d", got, next*next)
		}
		if ahead := int(taken.Load()) - next; ahead > 4*workers {
			t.Fatalf("%d items are taken ahead", ahead)
		}
		next++
		if next == items/2 {
			break
		}
	}
	if most.Load() > workers {
		t.Errorf("%d at once, want at most %d", most.Load(), workers)
	}
}

func linter(t testing.TB) Linter {
	t.Helper()
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	none := ""
	return Linter{Sites: &Sites{File: &none, Book: book}, Now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
}

// TestRunIsDeterministic: on any number of processors the same results in the same
// order, numbered by file, even if a file is named twice.
func TestRunIsDeterministic(t *testing.T) {
	folder := t.TempDir()
	for f := range 20 {
		var text strings.Builder
		for d := range f {
			fmt.Fprintf(&text, "---\napiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: a%d}\nspec: {taint: {key: not a key}}\n", d)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.yaml", f)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (lines []string) {
		again := filepath.Join(folder, "03.yaml")
		for result := range linter(t).Run(folder, again, again, filepath.Join(folder, "missing.yaml")) {
			lines = append(lines, fmt.Sprint(result))
			for _, r := range result.Reports {
				if r.Document != result.Document || r.Name != fmt.Sprintf("a%d", r.Document-1) || result.Ours != result.Document {
					t.Errorf("document %d, %d of ours: %v", result.Document, result.Ours, r)
				}
			}
		}
		return lines
	}
	want := run()
	if len(want) != 20*19/2+3+3+1 {
		t.Fatalf("%d results", len(want))
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if got := run(); !slices.Equal(got, want) {
		t.Errorf("got %d results in another order", len(got))
	}
}

// TestReportsAreKeptOnly: what was checked is let go.
func TestReportsAreKeptOnly(t *testing.T) {
	const document = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a, annotations: {a: \"%s\"}}\nspec: {}\n"
	l, text := linter(t), fmt.Sprintf(document, strings.Repeat("x", 100_000))
	l.Reader = manifest.Reader{Stdin: &repeater{text: text, times: 600}}
	var most uint64
	var memory runtime.MemStats
	count := 0
	runtime.GC()
	runtime.ReadMemStats(&memory)
	before := memory.HeapAlloc
	for range l.Run(manifest.Stdin) {
		if count++; count%50 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&memory)
			most = max(most, memory.HeapAlloc)
		}
	}
	if count != 600 || most > before+20<<20 { // what is read ahead and decoded takes up to 10 MB on a busy machine
		t.Errorf("%d objects of 60 MB, %d MB in use, %d before", count, most>>20, before>>20)
	}
}

// A repeater is a long stream.
type repeater struct {
	text  string
	times int
	rest  string
}

func (r *repeater) Read(p []byte) (int, error) {
	if r.rest == "" && r.times > 0 {
		r.rest = r.text
		r.times--
	}
	if r.rest == "" {
		return 0, os.ErrClosed
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestAnnotation(t *testing.T) {
	got := annotation(Diagnostic{File: "/w/a,b: 100%.yaml", Line: 3, Column: 7, Rule: "unreadable", Severity: validate.Error, Message: "1\r\n2: 3, 4%"}, "/w")
	if want := "::error file=a%2Cb%3A 100%25.yaml,line=3,col=7,title=dra-steward%3A unreadable::1%0D%0A2: 3, 4%25"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestProgress: nothing at first, then a line that changes, gone before anything else.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := Progress{Out: &out, Now: func() time.Time { return now }}
	for range 30 {
		p.Count("a.yaml")
		now = now.Add(100 * time.Millisecond)
	}
	p.Hide()
	p.Hide()
	want := "\r\033[K21 objects in 2 s, now a.yaml\r\033[K23 objects in 2 s, now a.yaml\r\033[K25 objects in 2 s, now a.yaml" +
		"\r\033[K27 objects in 3 s, now a.yaml\r\033[K29 objects in 3 s, now a.yaml\r\033[K"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
	(&Progress{}).Count("a.yaml")
}

// TestSARIF holds the log against what the schema of SARIF 2.1.0 requires.
func TestSARIF(t *testing.T) {
	l := linter(t)
	l.Reader = manifest.Reader{Stdin: strings.NewReader("apiVersion: resource.k8s.io/v1beta1\nkind: DeviceTaintRule\n---\n" +
		"apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: a}\nspec: {taint: {key: not a key, colour: red}}\n---\nkind: [\n")}
	var out bytes.Buffer
	printer, err := NewPrinter("sarif", &out, Options{Here: "/w", Version: "v1.2.3", Commit: "abc", Book: l.Sites.Book})
	if err != nil {
		t.Fatal(err)
	}
	for result := range l.Run(manifest.Stdin, "missing.yaml") {
		if err := printer.Print(result); err != nil {
			t.Fatal(err)
		}
	}
	if err := printer.Close(); err != nil {
		t.Fatal(err)
	}
	var log any
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	for _, problem := range essentials(log) {
		t.Error(problem)
	}
	if text := `"fullName": "dra-steward v1.2.3 (commit abc)"`; !strings.Contains(out.String(), text) {
		t.Errorf("no %s", text)
	}
}

// essentials are the required properties, enumerations and bounds of the published
// schema, for the part of SARIF that is written.
func essentials(log any) (problems []string) {
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	at := func(value any, steps ...any) any {
		for _, step := range steps {
			switch step := step.(type) {
			case string:
				object, _ := value.(map[string]any)
				value = object[step]
			case int:
				list, _ := value.([]any)
				if step >= len(list) {
					return nil
				}
				value = list[step]
			}
		}
		return value
	}
	levels := []any{"none", "note", "warning", "error"}
	expect(at(log, "version") == "2.1.0", "version %v", at(log, "version"))
	schema, _ := at(log, "$schema").(string)
	expect(strings.HasSuffix(schema, "/sarif-schema-2.1.0.json"), "$schema %v", schema)
	run := at(log, "runs", 0)
	expect(at(run, "tool", "driver", "name") == "dra-steward", "name of the tool")
	expect(slices.Contains([]any{"utf16CodeUnits", "unicodeCodePoints"}, at(run, "columnKind")), "columnKind")
	expect(at(run, "invocations", 0, "executionSuccessful") == false, "a file could not be read")
	expect(at(run, "invocations", 0, "toolExecutionNotifications", 0, "message", "text") != nil, "notification without a text")
	rules, _ := at(run, "tool", "driver", "rules").([]any)
	ids := map[any]bool{}
	for i, rule := range rules {
		id := at(rule, "id")
		expect(id != nil && !ids[id], "rule %d: id %v", i, id)
		ids[id] = true
		for _, text := range []string{"shortDescription", "fullDescription", "help"} {
			expect(at(rule, text, "text") != nil && at(rule, text, "text") != "", "rule %v: no %s", id, text)
		}
		expect(slices.Contains(levels, at(rule, "defaultConfiguration", "level")), "rule %v: level", id)
	}
	results, _ := at(run, "results").([]any)
	expect(len(results) >= 4, "%d results", len(results))
	for i, result := range results {
		index, _ := at(result, "ruleIndex").(float64)
		expect(at(rules, int(index), "id") == at(result, "ruleId"), "result %d: ruleIndex", i)
		expect(slices.Contains(levels, at(result, "level")), "result %d: level", i)
		expect(at(result, "message", "text") != "", "result %d: no message", i)
		place := at(result, "locations", 0, "physicalLocation")
		line, _ := at(place, "region", "startLine").(float64)
		column, _ := at(place, "region", "startColumn").(float64)
		expect(line >= 1 && column >= 1, "result %d: place %v:%v", i, line, column)
		uri, _ := at(place, "artifactLocation", "uri").(string)
		expect(uri != "" && !strings.ContainsAny(uri, " <>\\"), "result %d: uri %q", i, uri)
		expect(at(result, "locations", 0, "logicalLocations") == nil || at(result, "locations", 0, "logicalLocations", 0, "fullyQualifiedName") != "", "result %d: logical place", i)
	}
	return problems
}

// TestSelectionLeavesErrors: a rule that is not selected takes the place of no other, and what
// keeps a document from being checked is reported whatever is selected.
func TestSelectionLeavesErrors(t *testing.T) {
	const claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: gpu}\nspec: {devices: {requests: [{name: gpu, exactly: {%s}}]}}\n"
	folder := t.TempDir()
	for name, request := range map[string]string{
		"count": `deviceClassName: gpu.example.com, count: "{{ .Values.count }}"`, "unquoted": "deviceClassName: {{ .Values.class }}",
		"variable": `deviceClassName: "${CLASS}"`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), fmt.Appendf(nil, claim, request), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const count, unquoted, variable = "count.yaml wrong-type", "unquoted.yaml unrendered-template", "variable.yaml request-class"
	for name, tt := range map[string]struct {
		rules Selection
		site  []string
		want  []string
	}{
		"all":               {Selection{}, nil, []string{"count.yaml unrendered-template", unquoted, "variable.yaml unrendered-template"}},
		"another rule":      {Selection{Only: []string{"claim-devices-max"}}, nil, []string{count, unquoted}},
		"the rule":          {Selection{Only: []string{"request-class"}}, nil, []string{count, unquoted, variable}},
		"without templates": {Selection{Skip: []string{"unrendered-template"}}, nil, []string{count, variable}},
		"so in the site":    {Selection{}, []string{"unrendered-template"}, []string{count, variable}},
	} {
		t.Run(name, func(t *testing.T) {
			l := linter(t)
			site, err := l.Sites.For(folder)
			if err != nil {
				t.Fatal(err)
			}
			l.Rules, site.skipRules = tt.rules, tt.site
			var got []string
			for result := range l.Run(folder) {
				for _, r := range result.Reports {
					got = append(got, filepath.Base(r.File)+" "+r.Rule)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
