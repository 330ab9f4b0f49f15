package review_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestSite judges by examples/policies: a policy of a site's own, modes, parameters of
// the cluster and of namespaces, and an exemption with its end.
func TestSite(t *testing.T) {
	c, err := config.Load("../../examples/policies/site.yaml")
	if err != nil {
		t.Fatal(err)
	}
	own := policy.Collection{Name: "site", Files: os.DirFS("../../examples/policies")}
	if _, err := policy.Compile(t.Context(), policy.Library(), own); err != nil {
		t.Fatal(err) // its own tests are among what is run
	}
	r := withPolicies(t, c.StewardConfiguration, own)
	claim := func(class, more, config string) string {
		return fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":%q,"allocationMode":"ExactCount","count":1%s}}]%s}}}`, class, more, config)
	}
	const (
		shared, full = "shared.gpu.acme.example.com", "full.gpu.acme.example.com"
		tolerations  = `,"tolerations":[{"key":%q,"operator":"Exists","effect":"NoSchedule"}]`
		parameters   = `,"config":[{"opaque":{"driver":"gpu.acme.example.com","parameters":{"apiVersion":"gpu.acme.example.com/v1","kind":%q}}}]`
	)
	agent := "system:serviceaccount:gpu-monitoring:agent"
	for name, tt := range map[string]struct {
		namespace, user, object string
		want                    string
	}{
		"the shared class":                 {"team-a", "jane", claim(shared, "", ""), ""},
		"a class not for everybody":        {"team-a", "jane", claim(full, "", ""), "error DRA-CLAIM-004"},
		"a class for this namespace":       {"training", "jane", claim(full, "", ""), ""},
		"no class beyond the list":         {"training", "jane", claim("vfio", "", ""), "error DRA-CLAIM-004"},
		"exempt until spring":              {"legacy", "jane", claim(full, "", ""), "exempted DRA-CLAIM-004: moves to the shared class with its next release, see ticket 4711"},
		"the exemption of one code":        {"legacy", "jane", claim(full, fmt.Sprintf(tolerations, "gpu.nvidia.com/gpu-lost"), ""), "error DRA-TOL-002, exempted DRA-CLAIM-004: moves to the shared class with its next release, see ticket 4711"},
		"a health taint of the site":       {"team-a", "jane", claim(shared, fmt.Sprintf(tolerations, "health.acme.example.com/ecc"), ""), "error DRA-TOL-002"},
		"all taints, for the agent":        {"gpu-monitoring", agent, claim(full, `,"tolerations":[{"operator":"Exists"}]`, ""), ""},
		"all taints, for others":           {"team-a", agent, claim(shared, `,"tolerations":[{"operator":"Exists"}]`, ""), "error DRA-TOL-001, error DRA-TOL-002, warning DRA-TOL-004"},
		"admin access, for the agent":      {"gpu-monitoring", agent, claim(full, `,"adminAccess":true`, ""), ""},
		"admin access, for others there":   {"gpu-monitoring", "jane", claim(full, `,"adminAccess":true`, ""), "error DRA-CLAIM-001"},
		"parameters for users":             {"team-a", "jane", claim(shared, "", fmt.Sprintf(parameters, "GPUConfig")), ""},
		"parameters for classes":           {"team-a", "jane", claim(shared, "", fmt.Sprintf(parameters, "GPUInit")), "error ACME-001"},
		"parameters without a kind":        {"team-a", "jane", claim(shared, "", fmt.Sprintf(parameters, "")), "error ACME-001"},
		"the namespaces are those by name": {"training-2", "jane", claim(full, "", ""), "error DRA-CLAIM-004"},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, object := range map[string]string{
				"ResourceClaim":         tt.object,
				"ResourceClaimTemplate": strings.Replace(strings.TrimSuffix(tt.object, "}"), `"spec":`, `"spec":{"spec":`, 1) + "}}",
			} {
				if got := siteSays(t, r, kind, tt.namespace, tt.user, object); got != tt.want {
					t.Errorf("%s: got %q, want %q", kind, got, tt.want)
				}
			}
		})
	}
}

func siteSays(t *testing.T, r review.Reviewer, kind, namespace, user, object string) string {
	t.Helper()
	req := request("v1", kind, "", object, "")
	req.Namespace, req.User = namespace, who(user)
	answer, err := r.Validate(req)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range answer.Findings {
		said = append(said, f.Severity.String()+" "+f.Rule)
	}
	for _, e := range answer.Exempted {
		said = append(said, "exempted "+e.Rule+": "+e.Reason)
	}
	return strings.Join(said, ", ")
}
