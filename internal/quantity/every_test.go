package quantity_test

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// checked are the functions that decode into a type with quantities, or into one that they do not know, without a scan of
// their own, and why no number costs anything there.
var checked = map[string]string{
	"internal/clusterread.controllerOf":    "manifest.DecodeInto scans",
	"internal/clusterread.decode":          "manifest.DecodeInto scans",
	"internal/clusterread.podOf":           "manifest.DecodeInto scans",
	"internal/clusterread.snapshotOfFiles": "manifest.DecodeInto scans",
	"internal/newer.Convert":               "ResourceSlicePatches are scanned, other own types have no quantity, DeviceTaintRules neither",
	"internal/testaudit.Entries":           "tests read what they wrote",
	"pkg/podresources.Unmarshal":           "protobuf of the kubelet, without quantities",
	"pkg/podresources/checkpoint.decode":   "types of checkpoints, without quantities",
	"pkg/review.fastDecode":                "decode scans before",
}

// TestEveryDecoder: what decodes JSON or YAML into a type with a quantity asks this package first.
func TestEveryDecoder(t *testing.T) {
	all, err := packages.Load(&packages.Config{Dir: "../..", Mode: packages.NeedName | packages.NeedSyntax | packages.NeedFiles | packages.NeedCompiledGoFiles |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile}, "./api/...", "./cmd/...", "./internal/...", "./pkg/...", "./webhook/...")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, p := range all {
		for _, problem := range p.Errors {
			t.Fatal(problem)
		}
		for _, file := range p.Syntax {
			for _, declared := range file.Decls {
				name := strings.TrimPrefix(p.PkgPath, "github.com/dra-steward/dra-steward/")
				if f, is := declared.(*ast.FuncDecl); is {
					name += "." + f.Name.Name
				}
				into, scans := decoded(p.TypesInfo, declared)
				found[name] = found[name] || into != nil
				if into != nil && !scans && checked[name] == "" && p.Name != "quantity" {
					t.Errorf("%s decodes a %s, which can have a quantity: use quantity.Unmarshal, or call quantity.Scan before", name, into)
				}
			}
		}
	}
	for name := range checked {
		if !found[name] {
			t.Errorf("%s decodes no quantity: delete its line", name)
		}
	}
}

// decoded returns a type with quantities that a declaration decodes, and whether it asks this package.
func decoded(info *types.Info, in ast.Node) (into types.Type, scans bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		selector, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		f, is := info.Uses[selector.Sel].(*types.Func)
		if !is || f.Pkg() == nil {
			return true
		}
		if f.Pkg().Name() == "quantity" {
			scans = true
		} else if t := destination(info, call, f); t != nil && (types.IsInterface(t) || quantities(t, map[types.Type]bool{})) {
			into = t
		}
		return true
	})
	return into, scans
}

// destination is the type of what a call decodes into, nil for other calls.
func destination(info *types.Info, call *ast.CallExpr, f *types.Func) types.Type {
	at := len(call.Args) - 1
	switch f.Name() {
	case "ParseQuantity", "MustParse":
		return f.Signature().Results().At(0).Type()
	case "UnmarshalStrict":
		at = 1
	case "Unmarshal", "UnmarshalCaseSensitivePreserveInts", "FromUnstructured", "DecodeInto", "Decode":
	default:
		return nil
	}
	if at < 0 {
		return nil
	}
	return info.TypeOf(call.Args[at])
}

// quantities reports whether a decoder can find a quantity in a type.
func quantities(t types.Type, seen map[types.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch named := types.Unalias(t).(type) {
	case *types.TypeParam:
		return true
	case *types.Named:
		if named.Obj().Name() == "Quantity" && strings.HasSuffix(named.Obj().Pkg().Path(), "apimachinery/pkg/api/resource") {
			return true
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return quantities(u.Elem(), seen)
	case *types.Slice:
		return quantities(u.Elem(), seen)
	case *types.Array:
		return quantities(u.Elem(), seen)
	case *types.Map:
		return quantities(u.Elem(), seen)
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); (f.Exported() || f.Embedded()) && quantities(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}
