package depcheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// clock are the functions of package time by which code asks for the time itself.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// A GoFile is one Go file below a folder.
type GoFile struct {
	// Name is its path below the folder, with slashes.
	Name string
	// Module is the folder of the module it belongs to, "" for the root one.
	Module string

	file *ast.File
	fset *token.FileSet
}

// Sources parses every Go file below dir, in all modules, but for testdata and
// hidden folders.
func Sources(dir string) (sources []GoFile, err error) {
	var modules []string
	fset := token.NewFileSet()
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		base := entry.Name()
		switch {
		case entry.IsDir() && relative != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return filepath.SkipDir
		case base == "go.mod" && relative != "go.mod":
			modules = append(modules, path.Dir(relative))
		case path.Ext(base) == ".go":
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			sources = append(sources, GoFile{Name: relative, file: file, fset: fset})
		}
		return nil
	})
	for i := range sources {
		sources[i].Module = moduleOf(sources[i].Name, modules)
	}
	return sources, err
}

// moduleOf returns the innermost of the modules that holds the file.
func moduleOf(name string, modules []string) (innermost string) {
	for _, module := range modules {
		if within(name, module) && len(module) > len(innermost) {
			innermost = module
		}
	}
	return innermost
}

// Check returns what is wrong with the file, a line each.
func (s GoFile) Check(packages map[string]Package, modules map[string][]string, exceptions map[string]string) (problems []string) {
	if ast.IsGenerated(s.file) {
		return nil
	}
	problems = append(s.functions(exceptions), s.times(packages)...)
	if s.test() {
		return problems
	}
	if n := s.line(s.file.FileEnd); n > FileLines && exceptions[s.Name] == "" {
		problems = append(problems, fmt.Sprintf("%s: %d lines, must have at most %d: split it by idea", s.Name, n, FileLines))
	}
	return append(problems, append(s.imports(modules), s.clients()...)...)
}

// pureFile says whether PureFiles names the file.
func (s GoFile) pureFile() bool {
	return s.Module == "" && slices.Contains(PureFiles[path.Dir(s.Name)], path.Base(s.Name))
}

// clients finds imports of clients in a file that decides.
func (s GoFile) clients() (problems []string) {
	if !s.pureFile() {
		return nil
	}
	for _, spec := range s.file.Imports {
		for _, never := range []string{clientGo, controllerRuntime, opa} {
			if within(unquote(spec), never) {
				problems = append(problems, fmt.Sprintf("%s:%d: imports %s: the file decides, see PureFiles in tools/depcheck/table.go", s.Name, s.line(spec.Pos()), unquote(spec)))
			}
		}
	}
	return problems
}

func (s GoFile) test() bool { return strings.HasSuffix(s.Name, "_test.go") }

func (s GoFile) line(at token.Pos) int { return s.fset.Position(at).Line }

// functions finds init functions and, outside tests, long ones.
func (s GoFile) functions(exceptions map[string]string) (problems []string) {
	for _, declaration := range s.file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		at := fmt.Sprintf("%s:%d", s.Name, s.line(f.Pos()))
		if f.Name.Name == "init" && f.Recv == nil {
			problems = append(problems, at+": init function: pass what it sets up as a value, or use sync.OnceValue")
		}
		lines := s.line(f.End()) - s.line(f.Pos()) + 1
		if lines >= FunctionLines && !s.test() && exceptions[s.Name+":"+f.Name.Name] == "" {
			problems = append(problems, fmt.Sprintf("%s: %s has %d lines, must have fewer than %d", at, f.Name.Name, lines, FunctionLines))
		}
	}
	return problems
}

// times finds sleeping anywhere and a look at the clock in a pure package.
func (s GoFile) times(packages map[string]Package) (problems []string) {
	name := s.importedAs("time")
	pure := s.Module == "" && !s.test() && (packages[path.Dir(s.Name)].Pure || s.pureFile())
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); !ok || name == "" || x.Name != name {
			return true
		}
		at := fmt.Sprintf("%s:%d: time.%s", s.Name, s.line(n.Pos()), selector.Sel.Name)
		switch {
		case selector.Sel.Name == "Sleep":
			problems = append(problems, at+": wait for what you wait for (a channel, a context, synctest), not for some time")
		case pure && slices.Contains(clock, selector.Sel.Name):
			problems = append(problems, at+": the code is pure: take the time as a parameter")
		}
		return true
	})
	return problems
}

// importedAs returns the name that the file has for a package, "" if none.
func (s GoFile) importedAs(imported string) string {
	for _, spec := range s.file.Imports {
		if unquote(spec) != imported {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(imported)
	}
	return ""
}

// imports checks what an own module imports of ours.
func (s GoFile) imports(modules map[string][]string) (problems []string) {
	if s.Module == "" {
		return nil
	}
	allowed, known := modules[s.Module]
	if !known {
		return []string{fmt.Sprintf("%s: module %s is not in Modules; add it to tools/depcheck/table.go", s.Name, s.Module)}
	}
	for _, spec := range s.file.Imports {
		imported, ours := strings.CutPrefix(unquote(spec), Root+"/")
		if ours && !within(imported, s.Module) && !slices.Contains(allowed, imported) && !slices.Contains(allowed, "...") {
			problems = append(problems, fmt.Sprintf("%s:%d: module %s must not import %s: see Modules in tools/depcheck/table.go",
				s.Name, s.line(spec.Pos()), s.Module, imported))
		}
	}
	return problems
}

func unquote(spec *ast.ImportSpec) string {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return imported
}
