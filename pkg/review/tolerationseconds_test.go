package review_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestMaxSecondsWithoutDefaults: what the site caps is refused where the mutating webhook has
// not lowered it, by namespace, class and author, and accepted where it has.
func TestMaxSecondsWithoutDefaults(t *testing.T) {
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Defaults: v1alpha1.Defaults{Tolerations: &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{
		{MaxSeconds: new(int64(3600))},
		{MaxSeconds: new(int64(60)), Namespaces: []string{"team"}, DeviceClasses: []string{"gpu"}, Users: []string{"jane"}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	reviewer.InCluster = true
	for _, test := range []struct{ namespace, user, class, effect, seconds, annotation, want string }{
		{"team", "jane", "gpu", "NoExecute", "60", "", ""},
		{"team", "jane", "gpu", "NoExecute", "61", "", "must be at most 60"},
		{"team", "jane", "gpu", "NoExecute", "null", "", "at most 60 seconds"},
		{"team", "jane", "nic", "NoExecute", "3600", "", ""},
		{"team", "jane", "nic", "NoExecute", "3601", "", "must be at most 3600"},
		{"team", "john", "gpu", "NoExecute", "3600", "", ""},
		{"other", "jane", "gpu", "NoExecute", "3600", "", ""},
		{"team", "system:kube-scheduler", "gpu", "NoExecute", "null", "", ""},
		{"team", "system:serviceaccount:kube-system:resource-claim-controller", "gpu", "NoExecute", "null", "", ""},
		// The seconds of an empty effect are ignored: it has no end.
		{"team", "jane", "gpu", "", "1", "", "at most 60 seconds"},
		{"team", "jane", "gpu", "", "null", "", "at most 60 seconds"},
		{"team", "jane", "gpu", "NoSchedule", "1", "", ""},
		{"team", "system:kube-scheduler", "gpu", "", "1", "", ""},
		// No room for the record: the mutating webhook changes nothing.
		{"team", "jane", "gpu", "NoExecute", "null", strings.Repeat("x", 262_000), "at most 60 seconds"},
	} {
		for _, kind := range []string{"ResourceClaim", "ResourceClaimTemplate"} {
			spec := fmt.Sprintf(`{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":%q,"allocationMode":"ExactCount","count":1,
				"tolerations":[{"key":"a","operator":"Exists","effect":%q,"tolerationSeconds":%s}]}}]}}`, test.class, test.effect, test.seconds)
			if kind == "ResourceClaimTemplate" {
				spec = `{"spec":` + spec + `}`
			}
			req := review.Request{
				Kind: resourceapi.SchemeGroupVersion.WithKind(kind), Namespace: test.namespace, User: &authenticationv1.UserInfo{Username: test.user},
				Object: fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":%q,"annotations":{"example.com/large":%q}},"spec":%s}`, test.namespace, test.annotation, spec),
			}
			answer, err := reviewer.Validate(req)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(answer.Findings)
			if (test.want != "") != answer.Denied() || !strings.Contains(text, test.want) {
				t.Errorf("%s in %s by %s of class %s for %q with %s seconds: %s, want %q", kind, test.namespace, test.user, test.class, test.effect, test.seconds, text, test.want)
			}
			if mutated, err := reviewer.Mutate(req); err != nil || test.annotation == "" && mutated.Denied() {
				t.Errorf("mutate: %v, %v", mutated.Findings, err)
			}
		}
	}
}
