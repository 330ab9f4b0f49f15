package policyload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

const namespace = "steward"

// ownPolicy is a policy with a test. Of the test, more is a condition.
func ownPolicy(code, more string) *corev1.ConfigMap {
	name := strings.ToLower(strings.ReplaceAll(code, "-", "_"))
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(code), Labels: map[string]string{PolicyLabel: "true"}},
		Data: map[string]string{
			"a.rego": fmt.Sprintf(`# METADATA
# title: A toleration of a taint that is forbidden
# description: The test of this policy is what matters here.
# custom:
#   code: %s
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.%s

deny contains {"paths": toleration.paths, "message": "no"} if {
	some toleration in input.tolerations
	toleration.key == "example.com/forbidden"
}
`, code, name),
			"a_test.rego": fmt.Sprintf(`package dra.custom.%s_test

import data.dra.custom.%[1]s

test_denied if {
	count(%[1]s.deny) == 1 with input.tolerations as [{"key": "example.com/forbidden", "paths": ["a"]}]
	%s
}
`, name, more),
		},
	}
}

// A release has the ConfigMaps that are stored, and the codes of the site's policies in force.
type release struct {
	*ConfigMaps
	inForce []string
}

func newRelease(t *testing.T, stored ...*corev1.ConfigMap) *release {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, c := range stored {
		if err := known.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{}
	r.ConfigMaps = &ConfigMaps{
		Namespace: namespace, Sources: []policy.Collection{policy.Library()}, Lister: corelisters.NewConfigMapLister(known), Log: logr.Discard(), Metrics: metrics,
		Agrees: func(Files) error { return nil },
		Use: func(files Files, _ time.Time) error {
			r.inForce = nil
			for _, p := range files.Set.Policies() {
				if strings.HasPrefix(p.Code, "ACME") {
					r.inForce = append(r.inForce, p.Code)
				}
			}
			return nil
		},
	}
	return r
}

// TestStartWithRefusedPolicies: a replica that starts while a ConfigMap is refused has the policies of the others in force.
func TestStartWithRefusedPolicies(t *testing.T) {
	good, failing, broken := ownPolicy("ACME-A-001", ""), ownPolicy("ACME-B-001", "1 == 2"), ownPolicy("ACME-C-001", "")
	broken.Data["a.rego"] += "deny contains 1 if undefined_function(1)\n"
	r := newRelease(t, good, failing, broken)
	r.load(t.Context())
	if want := []string{"ACME-A-001"}; !slices.Equal(r.inForce, want) {
		t.Errorf("in force: %q, want %q", r.inForce, want)
	}
	if len(r.Status.Problems) != 1 || r.Status.Problems[0].ConfigMap != broken.Name || r.Status.Revision == "" {
		t.Errorf("the status: revision %q, problems %v", r.Status.Revision, r.Status.Problems)
	}
	r.loaded.Store(true)
	r.inForce = []string{"what was in force"}
	r.load(t.Context())
	if want := []string{"what was in force"}; !slices.Equal(r.inForce, want) {
		t.Errorf("a later load leaves %q in force, want %q", r.inForce, want)
	}
}

// TestCheckWithoutTests: what a test costs has no bound, so it runs only for a caller that is known.
func TestCheckWithoutTests(t *testing.T) {
	r := newRelease(t)
	failing, broken := ownPolicy("ACME-B-001", "1 == 2"), ownPolicy("ACME-C-001", "")
	broken.Data["a.rego"] += "deny contains 1 if undefined_function(1)\n"
	for name, tt := range map[string]struct {
		stored *corev1.ConfigMap
		tests  bool
		want   string
	}{
		"failing, with tests":    {failing, true, "test_denied: fails"},
		"failing, without tests": {failing, false, ""},
		"broken, without tests":  {broken, false, "undefined_function"},
	} {
		if err := r.Check(t.Context(), tt.stored, tt.tests); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestBinaryData: kubectl stores a file that is not UTF-8 as binaryData, which is refused as other faults are.
func TestBinaryData(t *testing.T) {
	good, binary := ownPolicy("ACME-A-001", ""), ownPolicy("ACME-B-001", "")
	binary.BinaryData = map[string][]byte{"b.rego": []byte("package b # \xff")}
	r := newRelease(t, good, binary)
	r.load(t.Context())
	if want := []string{"ACME-A-001"}; !slices.Equal(r.inForce, want) {
		t.Errorf("in force: %q, want %q", r.inForce, want)
	}
	if p := r.Status.Problems; len(p) != 1 || p[0].ConfigMap != binary.Name || p[0].File != "b.rego" || !strings.Contains(p[0].Message, "UTF-8") {
		t.Errorf("problems %v", p)
	}
	if err := r.Check(t.Context(), binary, false); err == nil || !strings.Contains(err.Error(), "acme-b-001/b.rego: a key under binaryData is not read") {
		t.Errorf("at admission: %v", err)
	}
}

// TestStartWhileTheConfigurationRefusesOne: at the start, a problem that names no ConfigMap keeps only those policies out that have it.
func TestStartWhileTheConfigurationRefusesOne(t *testing.T) {
	r := newRelease(t, ownPolicy("ACME-A-001", ""), ownPolicy("ACME-B-001", ""))
	use := r.Use
	r.Use = func(files Files, now time.Time) error { // as the configuration does that has another parameter of ACME-B-001
		if _, has := files.Set.Policy("ACME-B-001"); has {
			return errors.New("config.yaml:3:45: policies.parameters[ACME-B-001].mots: policy ACME-B-001 has no parameter of this name")
		}
		return use(files, now)
	}
	r.load(t.Context())
	if want := []string{"ACME-A-001"}; !slices.Equal(r.inForce, want) {
		t.Errorf("in force: %q, want %q", r.inForce, want)
	}
}
