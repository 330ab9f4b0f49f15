package review_test

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// templates knows the age of a template in the namespace b; zero is none.
type templates time.Time

func (a templates) Oldest(namespace string, spec *resourceapi.ResourceClaimSpec) (time.Time, bool) {
	return time.Time(a), namespace == "b" && len(spec.Devices.Requests) == 1 && !time.Time(a).IsZero()
}

// TestClaimsFromTemplates: what the claim controller copies is refused only if its
// template is younger than the policy and its author could not have been exempt.
func TestClaimsFromTemplates(t *testing.T) {
	const code, controller = "DRA-TOL-001", "system:serviceaccount:kube-system:resource-claim-controller"
	since := now.Add(-time.Hour)
	younger, older := templates(now.Add(-time.Minute)), templates(now.Add(-2*time.Hour))
	site := func(mode string, exemptions ...v1alpha1.Exemption) v1alpha1.StewardConfiguration {
		for i := range exemptions {
			exemptions[i].Rules, exemptions[i].Reason = []string{code}, "trusted"
		}
		return v1alpha1.StewardConfiguration{Exemptions: exemptions, Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{code: v1alpha1.PolicyMode(mode)}}}
	}
	until := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	const denied = "error"
	for name, tt := range map[string]struct {
		site      v1alpha1.StewardConfiguration
		templates review.Templates
		unknown   bool // the start time of the policy
		user, old string
		want      string
	}{
		"younger than the policy":                 {site: site("deny"), templates: younger, want: denied},
		"older than the policy":                   {site: site("deny"), templates: older, want: "warning: its template is older than the policy, which is in force since 2026-"},
		"of its very second":                      {site: site("deny"), templates: templates(since), want: "warning: its template is older"},
		"no such template":                        {site: site("deny"), templates: templates{}, want: "warning: the age of its template is not known"},
		"no live data":                            {site: site("deny"), want: "warning: the age of its template is not known"},
		"age of the policy unknown":               {site: site("deny"), templates: younger, unknown: true, want: "warning: the start time of the policy is unknown"},
		"a policy that warns":                     {site: site("warn"), templates: younger, want: "audited"},
		"a policy that audits":                    {site: site("audit"), templates: younger, want: "audited"},
		"an exempt namespace":                     {site: site("deny", v1alpha1.Exemption{Namespaces: []string{"b"}, Expires: until(time.Hour)}), templates: younger, want: "exempted"},
		"a namespace that was exempt then":        {site: site("deny", v1alpha1.Exemption{Namespaces: []string{"b"}, Expires: until(-time.Second)}), templates: younger, want: "warning: the author of its template may have been exempt"},
		"an author who may be exempt":             {site: site("deny", v1alpha1.Exemption{Groups: []string{"admins"}, Expires: until(time.Hour)}), templates: younger, want: "warning: the author of its template may"},
		"an author who may have been exempt then": {site: site("deny", v1alpha1.Exemption{Users: []string{"joe"}, Expires: until(-30 * time.Second)}), templates: younger, want: "warning: the author of its template may"},
		"an exemption that had expired":           {site: site("deny", v1alpha1.Exemption{Users: []string{"joe"}, Expires: until(-2 * time.Minute)}), templates: younger, want: denied},
		"an exemption elsewhere":                  {site: site("deny", v1alpha1.Exemption{Users: []string{"joe"}, Namespaces: []string{"c"}, Expires: until(time.Hour)}), templates: younger, want: denied},
		"a controller without own account":        {site: site("deny"), templates: younger, user: "system:kube-controller-manager", want: denied},
		"another user":                            {site: site("deny"), templates: older, user: "jane", want: denied},
		"the scheduler":                           {site: site("deny"), templates: younger, user: "system:kube-scheduler", want: "exempted"},
		"an update":                               {site: site("deny"), templates: younger, old: strings.Replace(tolerant, "{}", `{"key":"a"}`, 1), want: "exempted"},
	} {
		t.Run(name, func(t *testing.T) {
			r := withPolicies(t, tt.site)
			r.Templates, r.PoliciesSince = tt.templates, func(asked string) (time.Time, bool) { return since, asked == code && !tt.unknown }
			req := request("v1", "ResourceClaim", "", tolerant, tt.old)
			req.Namespace, req.User = "b", who(controller)
			if tt.user != "" {
				req.User = who(tt.user)
			}
			answer, err := r.Validate(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(answer, code); !strings.HasPrefix(got, tt.want) || tt.want == denied && got != denied {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if answer.Denied() != (tt.want == denied) {
				t.Errorf("denied: %v", answer.Findings)
			}
		})
	}
}

// said is what an answer says by a rule.
func said(answer review.Answer, code string) (all string) {
	for _, f := range answer.Findings {
		if f.Rule == code {
			all += f.Severity.String()
			if _, why, is := strings.Cut(f.Message, "only a warning"); is {
				all += why
			}
		}
	}
	for _, f := range answer.Audited {
		if f.Rule == code {
			all += "audited"
		}
	}
	for _, e := range answer.Exempted {
		if e.Rule == code {
			all += "exempted"
		}
	}
	return all
}

// TestPolicyDigests: a digest changes with what a policy denies, and with nothing else.
func TestPolicyDigests(t *testing.T) {
	exempt := func(rule, reason string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{{Rules: []string{rule}, Users: []string{"jane"}, Reason: reason, Expires: metav1.NewTime(now)}}}
	}
	modes := func(code, mode string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{code: v1alpha1.PolicyMode(mode)}}}
	}
	digest := func(c v1alpha1.StewardConfiguration) string { return withPolicies(t, c).PolicyDigests()["DRA-TOL-001"] }
	plain := digest(v1alpha1.StewardConfiguration{})
	for name, tt := range map[string]struct {
		site v1alpha1.StewardConfiguration
		same bool
	}{
		"another mode":           {modes("DRA-TOL-001", "warn"), false},
		"its own mode, said":     {modes("DRA-TOL-001", "deny"), true},
		"mode of another policy": {modes("DRA-TOL-002", "deny"), true},
		"kill switch":            {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Disabled: true}}, false},
		"another namespace": {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Namespaces: []v1alpha1.PolicyNamespaces{
			{Names: []string{"b"}, Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "off"}}}}}, false},
		"exemption":              {exempt("DRA-TOL-001", "a"), false},
		"exemption from all":     {exempt("*", "a"), false},
		"exemption from another": {exempt("DRA-TOL-002", "a"), true},
	} {
		if same := digest(tt.site) == plain; same != tt.same {
			t.Errorf("%s: same %v, want %v", name, same, tt.same)
		}
	}
	if digest(exempt("DRA-TOL-001", "a")) != digest(exempt("DRA-TOL-001", "b")) {
		t.Error("a reason makes a difference")
	}
}
