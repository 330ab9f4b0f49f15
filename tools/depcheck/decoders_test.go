package depcheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// decoders are how JSON, YAML and protobuf become a type.
var decoders = []string{"Unmarshal", "UnmarshalStrict", "UnmarshalCaseSensitivePreserveInts", "FromUnstructured", "DecodeInto", "Decode", "ParseQuantity", "MustParse"}

// withoutScan are the functions, in files that know the types of Kubernetes, that decode without internal/cost/quantity, and why no
// number costs anything there.
var withoutScan = map[string]string{
	"internal/audit.headOf":                     none,
	"internal/audit.timeOf":                     none,
	"internal/cli/device.ruleOfFile":            none,
	"internal/cli/report.Policies":              none,
	"internal/cli/uninstall.listRewritten":      none,
	"internal/cluster/clusterread.get":          none,
	"internal/cluster/clusterread.ownNames":     none,
	"internal/controllers/policystatus.get":     none,
	"internal/guard.Configured":                 none,
	"internal/controllers/policystatus.collect": none,
	"internal/history.AddConfigMap":             none,
	"internal/foresight/podtemplate.Check":      none,
	"internal/foresight/podtemplate.decode":     none,
	"internal/history.Decode":                   none,
	"internal/guard/impact.ListGroups":          none,
	"internal/manifest.alphaTaintRule":          none,
	"internal/kubernetes/newer.Decode":          none,
	"internal/rules/policyload.addSchema":       none,
	"internal/rules/policyload.record":          none,
	"internal/report.ofScheduler":               none,
	"internal/report.parametersOf":              none,
	"internal/foresight/why.difference":         none,
	"pkg/mutate.readRecord":                     none,
	"pkg/podresources/checkpoint.DRA":           none,
	"pkg/policy.read":                           none,
	"pkg/review.keepsSlice":                     none,
	"pkg/review.limitsStranded":                 none,
	"pkg/review.policyChoices":                  none,
	"pkg/validate/apiserver.jsonObject":         none,
	"webhook.Handle":                            none,
	"webhook.Write":                             none,
	"webhook.decodeReview":                      none,
	"webhook.keeps":                             none,
	"internal/kubernetes/newer.Convert":         "of own types only ResourceSlicePatches have quantities, and they are scanned before",
}

// none is the reason of most.
const none = "what it decodes has no field with a quantity"

// TestDecoders: what decodes objects of others into a type of Kubernetes asks internal/cost/quantity first, whose tests call the
// decoders with numbers that take minutes.
func TestDecoders(t *testing.T) {
	sources, err := Sources(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, s := range sources {
		product := slices.ContainsFunc([]string{"api/", "cmd/", "internal/", "pkg/", "webhook/"}, func(dir string) bool { return strings.HasPrefix(s.Name, dir) })
		if !product || s.Module != "" || strings.HasSuffix(s.Name, "_test.go") || path.Dir(s.Name) == "internal/cost/quantity" || !slices.ContainsFunc(s.file.Imports, ofKubernetes) {
			continue
		}
		for _, declared := range s.file.Decls {
			f, is := declared.(*ast.FuncDecl)
			if !is || !decodes(f) {
				continue
			}
			name := path.Dir(s.Name) + "." + f.Name.Name
			if found[name] = true; withoutScan[name] == "" {
				t.Errorf("%s decodes without internal/cost/quantity: use quantity.Unmarshal, or call quantity.Scan before", name)
			}
		}
	}
	for name := range withoutScan {
		if !found[name] {
			t.Errorf("%s decodes nothing without a scan: delete its line", name)
		}
	}
}

// ofKubernetes reports whether types with quantities are imported.
func ofKubernetes(i *ast.ImportSpec) bool {
	return slices.ContainsFunc([]string{"k8s.io/api/", "k8s.io/apimachinery/pkg/runtime", "dra-steward/api/v1alpha1"}, func(part string) bool { return strings.Contains(i.Path.Value, part) })
}

// decodes reports whether a function calls a decoder, and nothing of internal/cost/quantity.
func decodes(f *ast.FuncDecl) (decodes bool) {
	scans := false
	ast.Inspect(f, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		selector, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		if of, is := selector.X.(*ast.Ident); is && (of.Name == "quantity" || of.Name == "manifest") { // manifest scans
			scans = true
		} else if is && selector.Sel.Name == "MustParse" && of.Name != "resource" {
			return true
		} else if slices.Contains(decoders, selector.Sel.Name) && len(call.Args) > 0 {
			decodes = true
		}
		return true
	})
	return decodes && !scans
}
