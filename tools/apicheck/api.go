package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	rootModule = "github.com/dra-steward/dra-steward"
	// golden is the folder of the golden files, below the root.
	golden = "api/golden"
)

// trees returns the modules and the packages in them that other projects import.
func trees() map[string][]string {
	return map[string][]string{
		".":            {"./pkg/...", "./webhook"},
		"test/envtest": {"./..."},
	}
}

// An api is what one package exports.
type api struct {
	path  string // below the root
	names int    // package-level names and methods
	lines []string
}

func (a api) text() string { return strings.Join(a.lines, "\n") + "\n" }

// load returns the packages below root that export names, by path. Other projects cannot
// import commands and internal packages.
func load(root string) ([]api, error) {
	var all []api
	for dir, patterns := range trees() {
		packages, err := loadModule(filepath.Join(root, dir), patterns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		all = append(all, packages...)
	}
	slices.SortFunc(all, func(a, b api) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// listed is what the go command says about a package.
type listed struct {
	ImportPath, Name, Export string
	DepOnly                  bool
	GoFiles                  []string
}

func (l listed) importable() bool {
	return !l.DepOnly && l.Name != "main" && len(l.GoFiles) > 0 && !slices.Contains(strings.Split(l.ImportPath, "/"), "internal")
}

func loadModule(dir string, patterns []string) (all []api, err error) {
	command := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Name,Export,DepOnly,GoFiles"}, patterns...)...)
	command.Dir = dir
	// The files must not depend on the machine that writes them.
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	exports, wanted, err := decode(out)
	if err != nil {
		return nil, err
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, path := range wanted {
		p, err := from.Import(path)
		if err != nil {
			return nil, err
		}
		if described := describe(p); described.names > 0 {
			all = append(all, described)
		}
	}
	return all, nil
}

// decode returns the files with export data by package, and the importable packages.
func decode(out []byte) (exports map[string]string, wanted []string, err error) {
	exports = map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		exports[l.ImportPath] = l.Export
		if l.importable() {
			wanted = append(wanted, l.ImportPath)
		}
	}
	return exports, wanted, nil
}

// describe returns a line for each exported name, field and method, sorted.
func describe(p *types.Package) api {
	a := api{path: strings.TrimPrefix(p.Path(), rootModule+"/")}
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		a.names++
		switch object := object.(type) {
		case *types.TypeName:
			a.describeType(object)
		case *types.Const:
			a.add("const %s %s = %s", name, a.typeString(p, object.Type()), object.Val().ExactString())
		case *types.Func:
			a.add("func %s%s", name, a.signature(p, object))
		default:
			a.add("var %s %s", name, a.typeString(p, object.Type()))
		}
	}
	slices.Sort(a.lines)
	return a
}

func (a *api) add(format string, values ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, values...))
}

func (a *api) describeType(object *types.TypeName) {
	p, name := object.Pkg(), object.Name()
	if object.IsAlias() {
		a.add("type %s = %s", name, a.typeString(p, types.Unalias(object.Type())))
		return
	}
	named, ok := object.Type().(*types.Named)
	if !ok {
		return
	}
	parameters := ""
	for i := range named.TypeParams().Len() {
		parameter := named.TypeParams().At(i)
		parameters += fmt.Sprintf(", %s %s", parameter, a.typeString(p, parameter.Constraint()))
	}
	if parameters != "" {
		parameters = "[" + parameters[2:] + "]"
	}
	switch under := named.Underlying().(type) {
	case *types.Struct:
		a.add("type %s%s struct", name, parameters)
		for field := range under.Fields() {
			if field.Exported() {
				a.add("type %s struct, %s %s", name, field.Name(), a.typeString(p, field.Type()))
			}
		}
	case *types.Interface:
		a.add("type %s%s interface", name, parameters)
		for method := range under.Methods() {
			a.add("type %s interface, %s%s", name, method.Name(), a.signature(p, method))
		}
	default:
		a.add("type %s%s %s", name, parameters, a.typeString(p, under))
	}
	for method := range named.Methods() {
		if method.Exported() {
			a.names++
			receiver := a.typeString(p, method.Signature().Recv().Type())
			a.add("method (%s) %s%s", receiver, method.Name(), a.signature(p, method))
		}
	}
}

// signature returns the signature of f without the names of its parameters: they are no part
// of what an importer compiles against.
func (a *api) signature(p *types.Package, f *types.Func) string {
	s := f.Signature()
	plain := types.NewSignatureType(nil, nil, nil, a.nameless(s.Params()), a.nameless(s.Results()), s.Variadic())
	text := strings.TrimPrefix(a.typeString(p, plain), "func")
	parameters := ""
	for i := range s.TypeParams().Len() {
		parameter := s.TypeParams().At(i)
		parameters += fmt.Sprintf(", %s %s", parameter, a.typeString(p, parameter.Constraint()))
	}
	if parameters != "" {
		text = "[" + parameters[2:] + "]" + text
	}
	return text
}

func (a *api) nameless(tuple *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range tuple.Variables() {
		vars = append(vars, types.NewParam(token.NoPos, nil, "", v.Type()))
	}
	return types.NewTuple(vars...)
}

// typeString names types of p without a path and all others with the whole path.
func (a *api) typeString(p *types.Package, t types.Type) string {
	return types.TypeString(t, types.RelativeTo(p))
}
