package main

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// minExamples is the number of runnable examples that the packages have together at least.
const minExamples = 40

// TestExamples fails for a package without an example. Examples need output, so that they are
// run; only those of test/envtest, which start a control plane, can be without.
func TestExamples(t *testing.T) {
	total := 0
	for _, p := range exported(t) {
		examples, err := examplesOf(filepath.Join(root, filepath.FromSlash(p.path)))
		if err != nil {
			t.Fatal(err)
		}
		if len(examples) == 0 {
			t.Errorf("%s has no example: add one that an importer can copy", p.path)
		}
		for _, example := range examples {
			if example.Output != "" || example.EmptyOutput {
				total++
			}
		}
	}
	t.Logf("%d examples with output", total)
	if total < minExamples {
		t.Errorf("%d examples with output, want at least %d", total, minExamples)
	}
}

func examplesOf(dir string) ([]*doc.Example, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return doc.Examples(files...), nil
}
