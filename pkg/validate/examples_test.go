package validate_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

var update = flag.Bool("update", false, "rewrite the .want files of the examples")

// TestExamples runs the examples of every rule. A rule without an accepted and a
// rejected example fails, and so does an example file without a rule.
func TestExamples(t *testing.T) {
	orphans := map[string]bool{}
	files, err := fs.Glob(validate.Examples, "examples/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		orphans[file] = true
	}
	for _, rule := range validate.Rules() {
		t.Run(rule.ID, func(t *testing.T) { testExample(t, rule.ID) })
		delete(orphans, "examples/"+rule.ID+".txtar")
	}
	for file := range orphans {
		t.Errorf("%s belongs to no rule: name it <rule ID>.txtar or remove it", file)
	}
}

func testExample(t *testing.T, id string) {
	e, err := example.Load(validate.Examples, id)
	if err != nil {
		t.Fatalf("%v\nadd pkg/validate/examples/%s.txtar with an accepted and a rejected case", err, id)
	}
	var accepted, rejected int
	for i := range e.Cases {
		c := &e.Cases[i]
		got := judge(t, id, e, c)
		if strings.Contains(got, severityOf(id).String()+": ") {
			rejected++
		} else {
			accepted++
		}
		if *update {
			c.Want = got
		} else if diff := cmp.Diff(c.Want, got); diff != "" {
			t.Errorf("%s.yaml: -want +got (go test -update rewrites it):\n%s", c.Name, diff)
		}
	}
	if accepted == 0 || rejected == 0 {
		t.Errorf("examples/%s.txtar has %d accepted and %d rejected cases, wants at least one of each", id, accepted, rejected)
	}
	if e.Comment == "" {
		t.Errorf("examples/%s.txtar has no comment that says what it shows", id)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("examples", id+".txtar"), e.Format(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lookAlike begins the names of cases that look like what their rule finds and are
// legitimate.
const lookAlike = "legitimate-"

// TestLookAlikes: every gap rule has examples that look like what it finds and are
// legitimate, and finds nothing in them.
func TestLookAlikes(t *testing.T) {
	for _, rule := range validate.Rules() {
		if rule.Category != validate.Gap {
			continue
		}
		e, err := example.Load(validate.Examples, rule.ID)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, c := range e.Cases {
			if !strings.HasPrefix(c.Name, lookAlike) {
				continue
			}
			found++
			if got := judge(t, rule.ID, e, &c); got != "" || c.Want != "" {
				t.Errorf("examples/%s.txtar: %s is legitimate, and draws %s%s", rule.ID, c.Name, got, c.Want)
			}
		}
		if found == 0 {
			t.Errorf("examples/%s.txtar has no case %s<what it is>", rule.ID, lookAlike)
		}
	}
}

// writeTime is when everything in the examples is written.
var writeTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func severityOf(id string) validate.Severity {
	for _, rule := range validate.Rules() {
		if rule.ID == id {
			return rule.Severity
		}
	}
	return validate.Off
}

// judge returns the findings of the rules for a case, a line each. Only the rule whose
// example it is may object, so that the example shows that rule and no other.
func judge(t *testing.T, id string, e example.Example, c *example.Case) string {
	t.Helper()
	conditions := validate.Conditions{Now: writeTime}
	decode(t, e.Site, &conditions)
	conditions.ClusterView = world(t, e.Existing)
	if id == "slice-author-changed" {
		conditions.SliceAuthors = published("system:serviceaccount:gpu:driver")
	}
	if strings.HasPrefix(id, "parameters-") {
		conditions.Parameters = schemas(t)
	}
	if id == "toleration-seconds-max" {
		conditions.MaxTolerationSeconds = func(class string) *int64 {
			return map[string]*int64{"gpu.example.com": new(int64(3600))}[class]
		}
	}
	if c.User != nil {
		conditions.Author = &authenticationv1.UserInfo{}
		decode(t, c.User, conditions.Author)
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(c.Object, &kind); err != nil {
		t.Fatalf("%s.yaml: %v", c.Name, err)
	}
	var errs, tolerated field.ErrorList
	switch kind.Kind {
	case "ResourceSlice":
		errs, tolerated = run[resourceapi.ResourceSlice](t, c, conditions, validate.ResourceSlice())
	case "ResourceClaim":
		errs, tolerated = run[resourceapi.ResourceClaim](t, c, conditions, slices.Concat(validate.ResourceClaim(), validate.ResourceClaimStatus()))
	case "ResourceClaimTemplate":
		errs, tolerated = run[resourceapi.ResourceClaimTemplate](t, c, conditions, validate.ResourceClaimTemplate())
	case "DeviceClass":
		errs, tolerated = run[resourceapi.DeviceClass](t, c, conditions, validate.DeviceClass())
	case "DeviceTaintRule":
		errs, tolerated = run[resourceapi.DeviceTaintRule](t, c, conditions, slices.Concat(validate.DeviceTaintRule(), validate.DeviceTaintRuleStatus()))
	case "ResourceSlicePatch":
		errs, tolerated = run[v1alpha1.ResourceSlicePatch](t, c, conditions, validate.ResourceSlicePatch())
	case "DeviceDrain":
		errs, tolerated = run[v1alpha1.DeviceDrain](t, c, conditions, validate.DeviceDrain())
	case "DeviceRoll":
		errs, tolerated = run[v1alpha1.DeviceRoll](t, c, conditions, validate.DeviceRoll())
	case "DeviceReaction":
		errs, tolerated = run[v1alpha1.DeviceReaction](t, c, conditions, validate.DeviceReaction())
	case validate.PodDeletionKind:
		errs, tolerated = run[validate.PodDeletion](t, c, conditions, validate.PodDeletions())
	default:
		t.Fatalf("%s.yaml: no rules for kind %q", c.Name, kind.Kind)
	}
	var lines strings.Builder
	for _, err := range slices.Concat(errs, tolerated) {
		severity := severityOf(id)
		if slices.Contains(tolerated, err) {
			severity = max(severity, validate.Warning)
		}
		if err.Origin != id && severityOf(err.Origin) == validate.Off {
			continue
		}
		if err.Origin != id {
			t.Errorf("%s.yaml: rule %s objects too: %v", c.Name, err.Origin, err)
		}
		if line := fmt.Sprintf("%s: %v\n", severity, err); !strings.Contains(lines.String(), line) {
			lines.WriteString(line) // the rules for metadata are in two tables of a claim
		}
	}
	return lines.String()
}

// published is an identity that has published for every driver.
type published string

func (p published) First(string, string) string { return string(p) }

func schemas(t *testing.T) validate.Parameters {
	t.Helper()
	library, err := parameters.Default()
	if err != nil {
		t.Fatal(err)
	}
	return library
}

// clusterView returns the objects of a file, nil if there is no file.
func world(t *testing.T, documents []byte) validate.ClusterView {
	t.Helper()
	if documents == nil {
		return nil
	}
	clusterView := &validate.Objects{}
	for document := range strings.SplitSeq(string(documents), "---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "DeviceClass":
			class := &resourceapi.DeviceClass{}
			decode(t, []byte(document), class)
			clusterView.Add(class)
		case "ResourceSlice":
			slice := &resourceapi.ResourceSlice{}
			decode(t, []byte(document), slice)
			clusterView.Add(slice)
		case "ResourceSlicePatch":
			patch := &v1alpha1.ResourceSlicePatch{}
			decode(t, []byte(document), patch)
			clusterView.Add(patch)
		case "ResourceClaim":
			claim := &resourceapi.ResourceClaim{}
			decode(t, []byte(document), claim)
			clusterView.Add(claim)
		default:
			t.Fatalf("a world has no %q", kind.Kind)
		}
	}
	return clusterView
}

func run[T any](t *testing.T, c *example.Case, conditions validate.Conditions, rules validate.Table[*T]) (errs, tolerated field.ErrorList) {
	t.Helper()
	var obj, old T
	decode(t, c.Object, &obj)
	if c.Old == nil {
		return rules.Validate(&obj, conditions), nil
	}
	decode(t, c.Old, &old)
	return rules.ValidateUpdate(&old, &obj, conditions)
}

func decode(t *testing.T, manifest []byte, into any) {
	t.Helper()
	if len(bytes.TrimSpace(manifest)) == 0 {
		return
	}
	if err := yaml.UnmarshalStrict(manifest, into); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
}

// TestRulesAreDocumented holds every rule to what documentation, messages and
// metrics rely on.
func TestRulesAreDocumented(t *testing.T) {
	for _, rule := range validate.Rules() {
		first, rest, _ := strings.Cut(rule.Doc, "\n")
		switch {
		case rule.ID != strings.ToLower(rule.ID) || strings.ContainsAny(rule.ID, " _./"):
			t.Errorf("%s: an ID is lower case words joined by hyphens", rule.ID)
		case !strings.HasSuffix(first, ".") || len(first) > 100:
			t.Errorf("%s: the first line of Doc must be a sentence of at most 100 bytes: %q", rule.ID, first)
		case rest == "" || !strings.HasPrefix(rest, "\n"):
			t.Errorf("%s: Doc must say after an empty line why the rule exists", rule.ID)
		case rule.Upstream == "" || rule.Source == "" || rule.Category == "":
			t.Errorf("%s: Upstream, Source and Category must be set", rule.ID)
		}
	}
}
