package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// root is that of the repository.
const root = "../.."

// TestMutants: the text of each mutant occurs once in its file, which is Go with the bug, too.
// Each of the parts that are named has mutants, and no two have the same name.
func TestMutants(t *testing.T) {
	list := all()
	if len(list) < 60 {
		t.Errorf("%d mutants, want at least 60", len(list))
	}
	names, folders := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		if names[m.name] {
			t.Errorf("%s: two mutants of this name", m.name)
		}
		names[m.name], folders[filepath.Dir(m.file)] = true, true
		text, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %s: %v", m.file, m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for _, want := range []string{"pkg/evictor", "pkg/tracker", "internal/drain", "pkg/patch/record", "pkg/policy", "webhook", "internal/cli/lint"} {
		if !folders[want] {
			t.Errorf("no mutant of %s", want)
		}
	}
}

// TestRun: a bug that a test finds is found, and one that no test can see survives.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		mutant mutant
		found  bool
	}{
		{mutant{file: "internal/controller/reconcile/loop.go", old: "switch err := reconcile(ctx, key); {", new: "switch err := reconcile(ctx, key); true {"}, false},
		{mutant{file: "internal/controller/reconcile/loop.go", old: "queue.AddRateLimited(key)", new: "queue.Forget(key)"}, true},
	} {
		found, err := tt.mutant.found(t.Context(), root, t.TempDir())
		if err != nil || found != tt.found {
			t.Errorf("%s: found is %v, want %v; %v", tt.mutant.file, found, tt.found, err)
		}
	}
	if _, err := (mutant{file: "internal/controller/reconcile/loop.go", old: "queue.Done(key)", new: "queue.Done(keys)"}).found(t.Context(), root, t.TempDir()); err == nil {
		t.Error("a bug that does not compile is an error")
	}
}
