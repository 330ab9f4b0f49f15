package chart

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dra-steward/dra-steward/internal/controllers"
)

// securityPage has the table of rights between these lines.
const (
	securityPage = "../../docs/security.md"
	rightsBegin  = "<!-- rights: go test ./test/chart -run TestSecurityPage -update -->\n"
	rightsEnd    = "<!-- end of rights -->\n"
)

// everyRight switches on all that adds a right.
func everyRight() values {
	return values{"monitoring": values{"secure": true}, "controller": values{"mode": "auto", "capacityMetrics": true, "reactions": values{"enabled": true, "restartDrivers": []any{"gpu-driver"}, "proofs": values{"enabled": true}}, "rolls": values{"enabled": true, "nodes": true, "driverNamespaces": []any{"gpu-driver"}, "proofNamespaces": []any{"gpu-proofs"}}, "drains": values{"deadlineDelete": true, "foresight": true}},
		"guard": values{"foresight": true},
		"node":  values{"enabled": true, "namespace": "devices-node", "createNamespace": true}, "scheduler": values{"enabled": true}}
}

// A right is one rule of a role, with the comment of the template as its reason.
type right struct{ component, where, what, why string }

// rights are those of the roles that the chart renders, in their order.
func rights(t *testing.T, v values) (all []right) {
	t.Helper()
	files, err := Manifests(v, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq(files[file], "\n---\n") {
			var node yaml.Node
			if err := yaml.Unmarshal([]byte(document), &node); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(node.Content) > 0 {
				all = append(all, explained(t, node.Content[0])...)
			}
		}
	}
	return all
}

func explained(t *testing.T, object *yaml.Node) (all []right) {
	t.Helper()
	var role struct {
		Kind     string
		Metadata struct {
			Name      string
			Namespace string
			Labels    map[string]string
		}
		Rules []struct {
			APIGroups     []string `yaml:"apiGroups"`
			Resources     []string
			ResourceNames []string `yaml:"resourceNames"`
			Verbs         []string
			URLs          []string `yaml:"nonResourceURLs"`
		}
	}
	if err := object.Decode(&role); err != nil || role.Kind != "Role" && role.Kind != "ClusterRole" {
		return nil
	}
	var items []*yaml.Node
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == "rules" {
			items = object.Content[i+1].Content
		}
	}
	why := ""
	for i, rule := range role.Rules {
		if comment := items[i].HeadComment; comment != "" {
			why = strings.Join(strings.Fields(strings.ReplaceAll(comment, "#", " ")), " ")
		}
		if why == "" {
			t.Errorf("%s %s: no comment says what %v of %v is for", role.Kind, role.Metadata.Name, rule.Verbs, rule.Resources)
		}
		resources := rule.URLs
		for _, resource := range rule.Resources {
			if group := rule.APIGroups[0]; group != "" {
				resource += "." + group
			}
			resources = append(resources, resource)
		}
		what := fmt.Sprintf("%s %s", strings.Join(rule.Verbs, ", "), strings.Join(resources, ", "))
		if len(rule.ResourceNames) > 0 {
			what += " named " + strings.Join(rule.ResourceNames, ", ")
		}
		where := "everywhere"
		if role.Kind == "Role" {
			where = "own namespace"
			if role.Metadata.Namespace != "dra-steward" {
				where = role.Metadata.Namespace
			}
		}
		all = append(all, right{role.Metadata.Labels["app.kubernetes.io/component"], where, what, why})
	}
	return all
}

// TestListedRights: each right to write of the controller belongs to one of the list of
// controllers, and each of these has the rights that the list says.
func TestListedRights(t *testing.T) {
	rendered := map[string]bool{}
	for _, v := range []values{everyRight(), {"patches": values{"mode": "materialize"}}} {
		for _, r := range rights(t, v) {
			rendered[r.what] = rendered[r.what] || r.component == "controller"
		}
	}
	listed := map[string]bool{}
	for _, what := range controllers.Leader() {
		listed[what] = true
	}
	for _, c := range controllers.All() {
		for _, what := range c.Writes {
			listed[what] = true
			if !rendered[what] {
				t.Errorf("%s needs %q, which no role of the chart has", c.Name, what)
			}
		}
	}
	for what, is := range rendered {
		writes := regexp.MustCompile(`\b(create|update|patch|delete)\b`).MatchString(what)
		if is && writes && !listed[what] {
			t.Errorf("no controller in internal/controllers/controllers.go needs %q", what)
		}
	}
}

// TestSecurityPage holds the table of docs/security.md to the roles that the chart renders,
// and each right to a reason.
func TestSecurityPage(t *testing.T) {
	byDefault := map[string]bool{}
	for _, r := range rights(t, nil) {
		byDefault[r.component+r.where+r.what] = true
	}
	var table strings.Builder
	table.WriteString("\n| component | may | where | by default | for |\n| --- | --- | --- | --- | --- |\n")
	all := rights(t, everyRight())
	// what the default has alone, and patches in slices, which a scheduler that applies them excludes
	for _, r := range append(rights(t, nil), rights(t, values{"patches": values{"mode": "materialize"}})...) {
		if !slices.ContainsFunc(all, func(o right) bool { return o.component == r.component && o.where == r.where && o.what == r.what }) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b right) int { return strings.Compare(order(a.component), order(b.component)) })
	for _, r := range all {
		is := "no"
		if byDefault[r.component+r.where+r.what] {
			is = "yes"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", r.component, r.what, r.where, is, strings.TrimSuffix(r.why, "."))
	}
	table.WriteString("\n")
	page, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(page), rightsBegin)
	got, after, ended := strings.Cut(rest, rightsEnd)
	if !begun || !ended {
		t.Fatalf("%s lacks the lines between which the table is", securityPage)
	}
	if got == table.String() {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the roles of the chart; look at the difference after: go test -run TestSecurityPage -update", securityPage)
	}
	if err := os.WriteFile(securityPage, []byte(before+rightsBegin+table.String()+rightsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// order puts the components in that of the page.
func order(component string) string {
	return fmt.Sprint(slices.Index([]string{"webhook", "controller", "uninstall", "node", "scheduler"}, component), component)
}

// TestCannot holds what docs/security.md says that no component can do, whatever the values.
func TestCannot(t *testing.T) {
	for _, v := range []values{nil, everyRight(), with(values{"controller": values{"mode": "full"}})} {
		for _, r := range rights(t, v) {
			verbs, resources, _ := strings.Cut(r.what, " ")
			for strings.HasSuffix(verbs, ",") {
				var verb string
				verb, resources, _ = strings.Cut(resources, " ")
				verbs += " " + verb
			}
			writes := slices.ContainsFunc(strings.Split(verbs, ", "), func(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" })
			reads := !writes
			if strings.HasPrefix(resources, "tokenreviews.") || strings.HasPrefix(resources, "subjectaccessreviews.") {
				writes = false // a review stores nothing
			}
			secret := strings.HasPrefix(resources, "secrets")
			// Rolls cordon nodes, and proofs run in namespaces that values name; all of it is off by default.
			cordons, proves := r.component == "controller" && r.what == "patch nodes", r.component == "controller" && (r.where == "gpu-proofs" || r.where == "dra-steward-proofs")
			for what, broken := range map[string]bool{
				"the webhook writes nothing":                    r.component == "webhook" && writes,
				"no wildcard":                                   r.component != "scheduler" && strings.Contains(r.what, "*"),
				"no role, and no other's rights":                strings.Contains(r.what, "rbac.authorization.k8s.io") || strings.Contains(verbs, "impersonate") || strings.Contains(verbs, "escalate") || strings.Contains(verbs, "bind"),
				"Secrets by name, in the own namespace":         secret && (r.where != "own namespace" || !strings.Contains(r.what, " named ")),
				"no nodes are written":                          !cordons && r.component != "scheduler" && strings.HasPrefix(resources, "nodes") && writes,
				"no claims, slices or classes are written":      !proves && r.component != "scheduler" && writes && (strings.HasPrefix(resources, "resourceclaims") || strings.HasPrefix(resources, "resourceslices.") || strings.HasPrefix(resources, "deviceclasses")),
				"no pod is created, changed or entered":         !proves && r.component != "scheduler" && (strings.HasPrefix(resources, "pods/exec") || strings.HasPrefix(resources, "pods ") && strings.Contains(verbs, "create")),
				"webhook configurations are patched by name":    strings.Contains(resources, "webhookconfigurations") && !strings.Contains(r.what, " named "),
				"the agent on nodes writes nothing but events":  r.component == "node" && writes && !strings.HasPrefix(resources, "events"),
				"a right of the uninstall Job is for uninstall": r.component == "uninstall" && reads && secret,
			} {
				if broken {
					t.Errorf("%s: %s may %s", what, r.component, r.what)
				}
			}
		}
	}
}

// TestAttacks: each attack on the page names tests that exist in the folders that it names.
func TestAttacks(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Attacks\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := regexp.MustCompile("`([a-z/]+)` `(Test[A-Za-z0-9]+)`")
	rows := 0
	for line := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| attack |") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, test := range tests {
			files, err := filepath.Glob(filepath.Join("../..", test[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(name string) bool {
				text, err := os.ReadFile(name)
				return err == nil && strings.Contains(string(text), "func "+test[2]+"(t *testing.T)")
			}) {
				t.Errorf("%s has no test %s", test[1], test[2])
			}
		}
	}
	if rows == 0 {
		t.Error("the page has no attacks")
	}
}

// TestReleaseChecks: what a release has to fill in is where its workflow looks for it.
func TestReleaseChecks(t *testing.T) {
	for file, want := range map[string][]string{
		"Dockerfile": {"\nARG GO_DIGEST=\nFROM --platform=$BUILDPLATFORM docker.io/library/golang:${GO}${GO_DIGEST} AS build\n"},
		".github/workflows/release.yaml": {"s|^ARG GO_DIGEST=.*|ARG GO_DIGEST=@$digest|", `for file in SECURITY.md .github/security-insights.yml CODE_OF_CONDUCT.md .github/CODEOWNERS; do`, `grep '@example\.invalid' "$file"`, `sed -n 's/^  registry: //p' charts/dra-steward/values.yaml`, `"" | *example.invalid)`,
			`grep -Fx "home: $GITHUB_SERVER_URL/$GITHUB_REPOSITORY" charts/dra-steward/Chart.yaml`,
			"FINGERPRINT: ${{ vars.CHART_KEY_FINGERPRINT }}", "URL: ${{ vars.CHART_KEY_URL }}", "KEY: ${{ secrets.CHART_KEY }}", "PASSPHRASE: ${{ secrets.CHART_KEY_PASSPHRASE }}",
			`[[ "$FINGERPRINT" =~ ^[0-9A-F]{40}$ && "$URL" == https://* ]]`, `-key-fingerprint "$FINGERPRINT" -key-url "$URL"`},
		"SECURITY.md":                    {"@example.invalid**"},
		"CODE_OF_CONDUCT.md":             {"@example.invalid**"},
		".github/CODEOWNERS":             {"\n* maintainers-to-be-set@example.invalid\n"},
		"RELEASE.md":                     {"`.github/security-insights.yml`", "`.github/CODEOWNERS`", "`image.registry`", "`CHART_KEY_FINGERPRINT`", "`CHART_KEY_URL`", "`CHART_KEY`", "`CHART_KEY_PASSPHRASE`"},
		"charts/dra-steward/Chart.yaml":  {"\nhome: https://"},
		"charts/dra-steward/values.yaml": {"\nimage:\n", "\n  registry: registry-to-be-set.example.invalid\n"},
	} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", file, part)
			}
		}
	}
}

// TestReleaseOwner: the list in RELEASE.md has every file that names the owner of the repository. A pattern covers
// the path of a module, and no link.
func TestReleaseOwner(t *testing.T) {
	owner, link := regexp.MustCompile(`github(?:usercontent)?\.com/dra-steward`), regexp.MustCompile(`//[a-z.]+\.com/dra-steward`)
	listed := ownerFiles(t)
	found := map[string]bool{}
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || name == "RELEASE.md" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || !owner.Match(text) || bytes.IndexByte(text, 0) >= 0 {
			return err // a program that was built here names its module
		}
		for _, pattern := range listed {
			is := pattern == name
			if suffix, has := strings.CutPrefix(pattern, "*"); has {
				is = strings.HasSuffix(name, suffix)
			} else if prefix, has := strings.CutSuffix(pattern, "*"); has {
				is = strings.HasPrefix(name, prefix)
			}
			if is && (pattern == name || !link.Match(text)) {
				found[pattern] = true
				return nil
			}
		}
		t.Errorf("RELEASE.md lacks %s, which names the owner of the repository", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range listed {
		if !found[pattern] {
			t.Errorf("RELEASE.md lists %s, which does not name the owner of the repository", pattern)
		}
	}
}

// ownerFiles are the files, and patterns of files, of the list in RELEASE.md. Files are before patterns.
func ownerFiles(t *testing.T) (listed []string) {
	t.Helper()
	page, err := os.ReadFile("../../RELEASE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| file | where it names the owner |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		files, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for file := range strings.SplitSeq(files, ",") {
			listed = append(listed, strings.Trim(file, " `"))
		}
	}
	if len(listed) == 0 {
		t.Fatal("RELEASE.md has no list of files that name the owner")
	}
	return listed
}
