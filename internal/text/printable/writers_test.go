package printable_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWriters: what is read from a cluster or a file is printed by this package. Only texts in memory and hashes are
// written in another way.
func TestWriters(t *testing.T) {
	memory := []string{"hash", "h", "sum", "state"}
	others := []string{"internal/testsupport/testattack/", "internal/lint/"} // a client; formats that TestPrintable of internal/cli reads
	found := 0
	for _, root := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../../..", root), func(file string, _ fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(file), "../../../")
			other := func(folder string) bool { return strings.HasPrefix(name, folder) }
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(others, other) {
				return err
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) == 0 {
					return true
				}
				function, is := call.Fun.(*ast.SelectorExpr)
				if !is {
					return true
				}
				of, is := function.X.(*ast.Ident)
				if !is {
					return true
				}
				switch of.Name + "." + function.Sel.Name {
				case "printable.Printf", "printable.Page":
					found++
				case "fmt.Print", "fmt.Printf", "fmt.Println":
					t.Errorf("%s: use printable.Printf", set.Position(call.Pos()))
				case "fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln", "io.WriteString":
					to, named := call.Args[0].(*ast.Ident)
					_, address := call.Args[0].(*ast.UnaryExpr)
					if !address && (!named || !slices.Contains(memory, to.Name)) && !strings.HasPrefix(name, "internal/text/printable/") {
						t.Errorf("%s: use printable.Printf", set.Position(call.Pos()))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("%d calls found", found)
	}
}
