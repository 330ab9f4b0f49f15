package review_test

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

func podRequest(user, object string) review.Request {
	return review.Request{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: []byte(object), Namespace: "team-a", User: who(user), Now: now}
}

// TestExtendedResources: what a namespace may not ask for in a claim, its pods may not ask
// for by extended resources either, for any creator.
func TestExtendedResources(t *testing.T) {
	r := withPolicies(t, v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{
		Modes: map[string]v1alpha1.PolicyMode{"DRA-CLAIM-003": "deny", "DRA-CLAIM-004": "deny"},
		Parameters: map[string]json.RawMessage{
			"DRA-CLAIM-003": json.RawMessage(`{"classes": {"gpu": 2}}`),
			"DRA-CLAIM-004": json.RawMessage(`{"allowed": ["gpu"]}`),
		},
	}})
	name := "example.com/secret"
	world := &validate.Objects{}
	world.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}})
	r.ClusterView = world
	pod := func(resources string) string {
		return `{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": ` + resources + `}}]}}`
	}
	for _, test := range []struct{ resources, rule, path string }{
		{`{"cpu": "1"}`, "", ""},
		{`{"example.com/other": "8"}`, "", ""},
		{`{"deviceclass.resource.kubernetes.io/gpu": "2"}`, "", ""},
		{`{"deviceclass.resource.kubernetes.io/gpu": "3"}`, "DRA-CLAIM-003", "spec.containers[1].resources.requests[deviceclass.resource.kubernetes.io/gpu]"},
		{`{"deviceclass.resource.kubernetes.io/secret": "1"}`, "DRA-CLAIM-004", "spec.containers[1].resources.requests[deviceclass.resource.kubernetes.io/secret]"},
		{`{"example.com/secret": "1"}`, "DRA-CLAIM-004", "spec.containers[1].resources.requests[example.com/secret]"},
	} {
		for _, user := range []string{"jane", "system:serviceaccount:kube-system:replicaset-controller", "system:kube-controller-manager"} {
			answer, err := r.Pod(podRequest(user, pod(test.resources)))
			if err != nil {
				t.Fatal(err)
			}
			if answer.Denied() != (test.rule != "") {
				t.Errorf("%s by %s: %+v", test.resources, user, answer.Findings)
				continue
			}
			if !answer.Denied() {
				continue
			}
			f := answer.Findings[0]
			if answer.Name != "p" || f.Rule != test.rule || f.Path != test.path || strings.Contains(f.Message, "spec.devices") {
				t.Errorf("%s by %s: %+v", test.resources, user, f)
			}
		}
	}
}
