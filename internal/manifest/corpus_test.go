package manifest_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
)

type expectation struct{ verdict, detail string }

// expectations reads EXPECTATIONS.tsv; the keys are "file#document".
func expectations(t testing.TB, folder string) map[string]expectation {
	t.Helper()
	in, err := os.Open(filepath.Join(folder, "EXPECTATIONS.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	table := csv.NewReader(in)
	table.Comma, table.LazyQuotes, table.FieldsPerRecord = '\t', true, -1
	rows, err := table.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]expectation{}
	for _, row := range rows[1:] {
		expected[row[0]+"#"+row[1]] = expectation{row[5], row[6]}
	}
	return expected
}

// form says of problems what a verdict says of a document.
func form(problems []manifest.Problem) string {
	result := "decodes"
	for _, problem := range problems {
		if problem.Fatal() {
			return "decode-failed"
		}
		result = "strict"
	}
	return result
}

func TestCorpus(t *testing.T) {
	folder := corpus.Folder(t)
	expected := expectations(t, folder)
	count := map[string]int{}
	for document, err := range (manifest.Reader{}).Walk(folder) {
		if err != nil {
			t.Error(err)
			continue
		}
		if !document.Ours() {
			continue
		}
		count[document.File]++
		name, _ := filepath.Rel(folder, document.File)
		key := fmt.Sprintf("%s#%d", name, count[document.File])
		want, ok := expected[key]
		if !ok {
			t.Errorf("%s: not expected", key)
		}
		delete(expected, key)
		_, problems := manifest.Decode(document)
		wantForm := map[string]string{"decode-failed": "decode-failed", "strict-warning": "strict", "strict+invalid": "strict"}[want.verdict]
		if wantForm == "" {
			wantForm = "decodes"
		}
		if got := form(problems); got != wantForm {
			t.Errorf("%s: %s, want %s (%s)\n%v", key, got, want.verdict, want.detail, problems)
		}
		checkPaths(t, key, want.detail, problems)
	}
	for key := range expected {
		t.Errorf("%s: not found", key)
	}
}

// checkPaths compares the paths of unknown fields with those that the API
// server's decoder named.
func checkPaths(t *testing.T, key, detail string, problems []manifest.Problem) {
	t.Helper()
	flat := strings.NewReplacer("[", ".", "]", "")
	found := map[string]bool{}
	for _, problem := range problems {
		if testing.Verbose() {
			t.Logf("%s:%d:%d: %v", key, problem.Line, problem.Column, problem)
		}
		if problem.Line < 1 || problem.Column < 1 {
			t.Errorf("%s: no position: %+v", key, problem)
		}
		if problem.Kind == manifest.UnknownField {
			found[flat.Replace(problem.Path)] = true
		}
	}
	for part := range strings.SplitSeq(detail, "unknown field ") {
		if path, err := strconv.QuotedPrefix(part); err == nil {
			path, _ = strconv.Unquote(path)
			if !found[flat.Replace(path)] {
				t.Errorf("%s: unknown field %s not reported", key, path)
			}
		}
	}
}

func BenchmarkCorpus(b *testing.B) {
	folder := corpus.Folder(b)
	for b.Loop() {
		documents := 0
		for document, err := range (manifest.Reader{}).Walk(folder) {
			if err != nil {
				b.Fatal(err)
			}
			documents++
			document.Position("spec.devices")
			if document.Ours() {
				manifest.Decode(document)
			}
		}
		b.ReportMetric(float64(documents), "documents")
	}
}
