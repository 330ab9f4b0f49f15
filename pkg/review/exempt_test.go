package review_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// by makes the request to create a claim that is denied, unless it is exempt.
func by(user, namespace string, groups ...string) review.Request {
	req := request("v1", "ResourceClaim", "", tooManyDevices, "")
	req.User, req.Namespace = &authenticationv1.UserInfo{Username: user, Groups: groups}, namespace
	return req
}

func exempting(e v1alpha1.Exemption) v1alpha1.StewardConfiguration {
	if e.Reason == "" {
		e.Reason = "a migration"
	}
	if e.Expires.IsZero() {
		e.Expires = metav1.NewTime(now.Add(time.Hour))
	}
	if e.Rules == nil {
		e.Rules = []string{"claim-devices-max"}
	}
	return v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{e}}
}

func TestExemptions(t *testing.T) {
	const scheduler = "system:kube-scheduler"
	ml := []string{"ml"}
	for name, test := range map[string]struct {
		site   v1alpha1.StewardConfiguration
		req    review.Request
		exempt bool
	}{
		"nothing decided":               {req: by("jane", "ml")},
		"the scheduler":                 {req: by(scheduler, "ml"), exempt: true},
		"the claim controller":          {req: by("system:serviceaccount:kube-system:resource-claim-controller", "ml"), exempt: true},
		"the controller manager":        {req: by("system:kube-controller-manager", "ml"), exempt: true},
		"its namesake elsewhere":        {req: by("system:serviceaccount:ml:resource-claim-controller", "ml")},
		"a group with its name":         {req: by("jane", "ml", scheduler)},
		"other system users":            {site: v1alpha1.StewardConfiguration{SystemUsers: []string{"jane"}}, req: by("jane", "ml"), exempt: true},
		"no default beside others":      {site: v1alpha1.StewardConfiguration{SystemUsers: []string{"jane"}}, req: by(scheduler, "ml")},
		"no system users":               {site: v1alpha1.StewardConfiguration{SystemUsers: []string{}}, req: by(scheduler, "ml")},
		"by namespace":                  {site: exempting(v1alpha1.Exemption{Namespaces: ml}), req: by("jane", "ml"), exempt: true},
		"another namespace":             {site: exempting(v1alpha1.Exemption{Namespaces: ml}), req: by("jane", "web")},
		"no namespace known":            {site: exempting(v1alpha1.Exemption{Namespaces: []string{""}}), req: by("jane", "")},
		"by user":                       {site: exempting(v1alpha1.Exemption{Users: []string{"jane"}}), req: by("jane", "web"), exempt: true},
		"by group":                      {site: exempting(v1alpha1.Exemption{Groups: []string{"admins"}}), req: by("jane", "web", "dev", "admins"), exempt: true},
		"user or group":                 {site: exempting(v1alpha1.Exemption{Users: []string{"joe"}, Groups: []string{"admins"}}), req: by("jane", "web", "admins"), exempt: true},
		"the user in another namespace": {site: exempting(v1alpha1.Exemption{Users: []string{"jane"}, Namespaces: ml}), req: by("jane", "web")},
		"both":                          {site: exempting(v1alpha1.Exemption{Users: []string{"jane"}, Namespaces: ml}), req: by("jane", "ml"), exempt: true},
		"another rule":                  {site: exempting(v1alpha1.Exemption{Namespaces: ml, Rules: []string{"claim-empty"}}), req: by("jane", "ml")},
		"all rules":                     {site: exempting(v1alpha1.Exemption{Namespaces: ml, Rules: []string{"*"}}), req: by("jane", "ml"), exempt: true},
		"expired":                       {site: exempting(v1alpha1.Exemption{Namespaces: ml, Expires: metav1.NewTime(now)}), req: by("jane", "ml")},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer, err := review.New(test.site)
			if err != nil {
				t.Fatal(err)
			}
			reviewer.InCluster = true
			answer, err := reviewer.Validate(test.req)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Denied() == test.exempt || (len(answer.Exempted) > 0) != test.exempt {
				t.Errorf("findings %v, exempted %v, want exempt %t", answer.Findings, answer.Exempted, test.exempt)
			}
			for _, e := range answer.Exempted {
				if e.Rule != "claim-devices-max" || e.Reason == "" {
					t.Errorf("the audit log would learn %+v", e)
				}
			}
		})
	}
}

// TestForgedExemptions: whatever a tenant can write into an object changes nothing.
func TestForgedExemptions(t *testing.T) {
	site := exempting(v1alpha1.Exemption{Namespaces: []string{"ml"}, Users: []string{"admin"}, Groups: []string{"admins"}})
	reviewer, err := review.New(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, metadata := range []string{
		`"namespace":"ml"`,
		`"labels":{"kubernetes.io/metadata.name":"ml","dra-steward.io/exempt":"true"}`,
		`"annotations":{"dra-steward.io/exempt":"claim-devices-max","dra-steward.io/ignore":"true","resource.kubernetes.io/extended-resource-claim":"true","kubernetes.io/created-by":"system:kube-scheduler"}`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true}]`,
		`"managedFields":[{"manager":"kube-scheduler","operation":"Update","apiVersion":"resource.k8s.io/v1"}]`,
		`"generateName":"system:kube-scheduler"`,
	} {
		req := by("jane", "web", "system:authenticated")
		req.Object = []byte(strings.Replace(tooManyDevices, `"name":"a","namespace":"b"`, metadata, 1))
		if answer, err := reviewer.Validate(req); err != nil || !answer.Denied() || len(answer.Exempted) > 0 {
			t.Errorf("%s is enough to pass: %+v, %v", metadata, answer, err)
		}
	}
}

// TestKeptTolerations: who is exempt from the rewriting keeps the tolerations of a new claim, without the
// limit of the site. An exemption from rules, also from all, leaves the rewriting as it is.
func TestKeptTolerations(t *testing.T) {
	const claim = `{"metadata":{"name":"proof","namespace":"proofs","finalizers":["resource.kubernetes.io/delete-protection"]},"spec":{"devices":{"requests":[
		{"name":"device","exactly":{"deviceClassName":"gpu","tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}]}}]}}}`
	exemption := v1alpha1.Exemption{Namespaces: []string{"proofs"}, Users: []string{"controller"}, Rules: []string{"DRA-TOL-004", "toleration-rewrite"}}
	every, expired := exemption, exemption
	every.Rules, expired.Expires = []string{"*"}, metav1.NewTime(now)
	for name, tt := range map[string]struct {
		exemption       v1alpha1.Exemption
		user, namespace string
		kept, denied    bool
	}{
		"exempt":            {exemption, "controller", "proofs", true, false},
		"another user":      {exemption, "jane", "proofs", false, true},
		"another namespace": {exemption, "controller", "ml", false, true},
		"expired":           {expired, "controller", "proofs", false, true},
		"all rules":         {every, "controller", "proofs", false, false},
	} {
		site := exempting(tt.exemption)
		site.Defaults.Tolerations = &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(60))}}}
		reviewer, err := review.New(site)
		if err != nil {
			t.Fatal(err)
		}
		reviewer.InCluster = true
		req := request("v1", "ResourceClaim", "", claim, "")
		req.User, req.Namespace = who(tt.user), tt.namespace
		mutated, err := reviewer.Mutate(req)
		if err != nil || (len(mutated.Changes) == 0) != tt.kept {
			t.Errorf("%s: changes %+v, %v, want kept %t", name, mutated.Changes, err, tt.kept)
		}
		validated, err := reviewer.Validate(req)
		if err != nil || validated.Denied() != tt.denied {
			t.Errorf("%s: %+v, %v, want denied %t", name, validated.Findings, err, tt.denied)
		}
	}
}

func TestExpired(t *testing.T) {
	site := exempting(v1alpha1.Exemption{Users: []string{"jane"}, Expires: metav1.NewTime(now.Add(-time.Second))})
	site.Exemptions = append(site.Exemptions, exempting(v1alpha1.Exemption{Users: []string{"jane"}}).Exemptions...)
	reviewer, err := review.New(site)
	if err != nil || !slices.Equal(reviewer.Expired(now), []int{0}) || !slices.Equal(reviewer.Expired(now.Add(2*time.Hour)), []int{0, 1}) {
		t.Errorf("expired %v, %v", reviewer.Expired(now), err)
	}
}

func TestRefusedExemptions(t *testing.T) {
	_, err := review.New(v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{
		{}, exempting(v1alpha1.Exemption{Users: []string{"jane"}, Rules: []string{"claim-device-max"}}).Exemptions[0],
		exempting(v1alpha1.Exemption{Users: []string{"jane"}, Rules: []string{"*", "claim-empty"}}).Exemptions[0],
	}})
	for _, want := range []string{
		"exemptions[0].reason: ", "exemptions[0].expires: ", "exemptions[0].rules: ", "exemptions[0]: Required value: name namespaces, users or groups",
		`exemptions[1].rules[0]: Invalid value: "claim-device-max": there is no such rule`, `exemptions[2].rules[0]: `,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// TestNoNeighbourDeniesASlice goes through the table: with every severity that a site
// can set, a rule that looks beyond a slice only warns.
func TestNoNeighbourDeniesASlice(t *testing.T) {
	world := &validate.Objects{}
	world.Add(poolMember("other", `{"name":"gpu-0"}`))
	beyond := 0
	for _, rule := range validate.Rules() {
		if !rule.CrossObject || !slices.Contains(rule.Kinds, "ResourceSlice") {
			continue
		}
		beyond++
		if rule.Severity == validate.Error {
			t.Errorf("%s looks beyond a slice and would deny it", rule.ID)
		}
		_, err := review.New(v1alpha1.StewardConfiguration{Rules: map[string]v1alpha1.Rule{rule.ID: {Severity: "error"}}})
		if err == nil || !strings.Contains(err.Error(), "rules["+rule.ID+"].severity: Forbidden") {
			t.Errorf("a site can let %s deny: %v", rule.ID, err)
		}
	}
	if beyond < 5 {
		t.Errorf("only %d rules look beyond a slice", beyond)
	}
	for _, rule := range validate.ResourceSlice() {
		c := validate.Conditions{ClusterView: world, Now: now}
		found := validate.Table[*resourceSlice]{rule}.Validate(poolMember("new", `{"name":"gpu-0"}`), c)
		if !rule.CrossObject && len(found) > 0 {
			t.Errorf("%s does not say that it looks beyond the slice: %v", rule.ID, found)
		}
	}
}

type resourceSlice = resourceapi.ResourceSlice

func poolMember(name, device string) *resourceSlice {
	slice := &resourceSlice{}
	text := `{"metadata":{"name":"` + name + `"},"spec":{"driver":"gpu.example.com","nodeName":"node-1","pool":{"name":"node-1","generation":1,"resourceSliceCount":1},"devices":[` + device + `]}}`
	if err := json.Unmarshal([]byte(text), slice); err != nil {
		panic(err)
	}
	return slice
}
