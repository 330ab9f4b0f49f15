package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// shipped are the folders whose Go strings users read.
var shipped = []string{"api", "cmd", "internal", "pkg", "policies", "scheduler", "webhook"}

// skipped are folders without texts for users.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir != "." && strings.HasPrefix(base, ".") || base == "testdata" || base == "examples" && dir != "examples" ||
		slices.Contains([]string{"bin", "test", "tools"}, dir)
}

// extractor returns how the texts of a file are taken out of it, or nil for a file
// without any. All of them keep the lines where they are.
func extractor(name string) func(name, text string) (string, error) {
	top, _, _ := strings.Cut(name, "/")
	whole := func(_, text string) (string, error) { return text, nil }
	if name == "Makefile" {
		return whole
	}
	switch path.Ext(name) {
	case ".md":
		return whole
	case ".rego":
		if !strings.HasSuffix(name, "_test.rego") {
			return whole
		}
	case ".yaml", ".txt", ".json", ".tpl":
		if top == "charts" {
			return whole
		}
	case ".go":
		if slices.Contains(shipped, top) && !strings.HasSuffix(name, "_test.go") {
			return goTexts
		}
	}
	return nil
}

// goTexts returns the string literals and comments of a Go file, in their lines, everything
// else blank. Import paths, struct tags and directives are no texts.
func goTexts(name, source string) (string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return "", err
	}
	other := map[token.Pos]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			other[n.Path.Pos()] = true
		case *ast.Field:
			if n.Tag != nil {
				other[n.Tag.Pos()] = true
			}
		}
		return true
	})
	kept := []byte(strings.Repeat(" ", len(source)))
	for i := range len(source) {
		if source[i] == '\n' {
			kept[i] = '\n'
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if text, is := strings.CutPrefix(comment.Text, "// "); is {
				copy(kept[set.Position(comment.Pos()).Offset+3:], text)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING && !other[literal.Pos()] {
			at := set.Position(literal.Pos()).Offset
			copy(kept[at+1:], literal.Value[1:len(literal.Value)-1])
		}
		return true
	})
	return string(kept), nil
}
