package cli_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
)

// finding is what programs read of "lint -o json".
type finding struct {
	File, Kind, Name, Rule, Severity, Path, Message string
	Document, Line, Column                          int
}

func lintJSON(t testing.TB, args ...string) []finding {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), append([]string{"lint", "-o", "json"}, args...), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if code == cmdutil.ExitFailed {
		t.Fatalf("lint could not run: %s", errs.String())
	}
	var findings []finding
	if err := json.Unmarshal(out.Bytes(), &findings); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	return findings
}

// refusedByDriver is a document of dranet that the API server accepts and the driver refuses: a neighbor has no ipAddress.
const refusedByDriver = "../../../shared/corpus/dranet/from-docs/site__content__docs__user__interface-configuration--block1.yaml#1"

// TestLintCorpus holds lint against what Kubernetes 1.37 says of the same public
// manifests: nothing that it accepts is an error, and what it cannot read, or would
// lose a field of, is one.
func TestLintCorpus(t *testing.T) {
	folder := corpus.Folder(t)
	start := time.Now()
	findings := lintJSON(t, folder)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s, must stay below a minute on a busy machine", took)
	}
	errors := map[string]string{}
	for _, f := range findings {
		if f.Rule == "" || f.Message == "" || f.Line < 1 || f.Column < 1 {
			t.Errorf("incomplete: %+v", f)
		}
		if f.Severity == "error" {
			errors[fmt.Sprintf("%s#%d", f.File, f.Document)] = fmt.Sprintf("%s (%s)", f.Message, f.Rule)
		}
	}
	checked := 0
	for document, verdict := range verdicts(t, folder) {
		message, wrong := errors[document]
		switch {
		case verdict == "valid" && wrong && document != refusedByDriver:
			t.Errorf("%s: the API server accepts it, lint says %s", document, message)
		case (verdict == "decode-failed" || strings.HasPrefix(verdict, "strict")) && !wrong:
			t.Errorf("%s: %s for the API server, lint says nothing", document, verdict)
		}
		checked++
	}
	if checked < 200 {
		t.Errorf("only %d documents of the corpus are in EXPECTATIONS.tsv", checked)
	}
}

// notYet are the rows of EXPECTATIONS.tsv on which the verdict is another one so far:
// file and number of the document, and the rule that is missing.
var notYet = map[string]string{}

// TestVerdicts: "lint --verdicts" equals what the registry strategies of Kubernetes
// 1.37.0 say, row by row, but for the rows of notYet, which have to be taken out of
// there as soon as they are right.
func TestVerdicts(t *testing.T) {
	folder := corpus.Folder(t)
	want := map[string]string{}
	for _, row := range expectations(t, folder) {
		want[row[0]+"#"+row[1]] = strings.Join(row[2:6], " ")
	}
	t.Chdir(folder)
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"lint", "--verdicts", "-o", "json", "."}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != cmdutil.ExitFindings {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var rows []struct {
		File, APIVersion, Kind, Name, Verdict string
		Document                              int
	}
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		document := fmt.Sprintf("%s#%d", row.File, row.Document)
		got := strings.Join([]string{row.APIVersion, row.Kind, row.Name, row.Verdict}, " ")
		_, excused := notYet[document]
		switch expected, known := want[document]; {
		case !known:
			t.Errorf("%s: %s is not in EXPECTATIONS.tsv", document, got)
		case got == expected && excused:
			t.Errorf("%s: %s is right now: take it out of notYet", document, got)
		case got != expected && !excused:
			t.Errorf("%s:\ngot  %s\nwant %s", document, got, expected)
		}
		delete(want, document)
	}
	for document, expected := range want {
		t.Errorf("%s: no verdict, want %s", document, expected)
	}
}

// TestFindingsAreExplained: whatever lint names, explain knows.
func TestFindingsAreExplained(t *testing.T) {
	book, err := rulebook.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lintJSON(t, corpus.Folder(t)) {
		if _, err := book.Find(f.Rule); err != nil {
			t.Errorf("%s:%d: %v", f.File, f.Line, err)
		}
	}
}

// verdicts returns file#document -> verdict of the API server. EXPECTATIONS.tsv counts
// the documents of resource.k8s.io only, lint counts all.
func verdicts(t testing.TB, folder string) map[string]string {
	t.Helper()
	expected := map[string]string{}
	for _, row := range expectations(t, folder) {
		expected[filepath.Join(folder, row[0])+"#"+row[1]] = row[5]
	}
	verdicts, ours := map[string]string{}, map[string]int{}
	for document, err := range (manifest.Reader{}).Walk(folder) {
		if err == nil && document.Ours() {
			ours[document.File]++
			verdict := expected[fmt.Sprintf("%s#%d", document.File, ours[document.File])]
			verdicts[fmt.Sprintf("%s#%d", document.File, document.Index)] = verdict
		}
	}
	return verdicts
}

// expectations returns the rows of EXPECTATIONS.tsv: file, document, apiVersion, kind,
// name, verdict.
func expectations(t testing.TB, folder string) [][]string {
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
	return rows[1:]
}

// BenchmarkLintCorpus is one run of lint over all public manifests.
func BenchmarkLintCorpus(b *testing.B) {
	folder := corpus.Folder(b)
	for b.Loop() {
		cli.Run(b.Context(), []string{"lint", folder}, cmdutil.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	}
}
