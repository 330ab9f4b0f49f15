package review_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func request(version, kind, subresource, object, old string) review.Request {
	return review.Request{
		Kind:        schema.GroupVersionKind{Group: "resource.k8s.io", Version: version, Kind: kind},
		Subresource: subresource, Object: []byte(object), Old: []byte(old), Now: now,
	}
}

// steps are the ways to ask a Reviewer.
func steps(r review.Reviewer) map[string]func(review.Request) (review.Answer, error) {
	return map[string]func(review.Request) (review.Answer, error){"Mutate": r.Mutate, "Validate": r.Validate, "Review": r.Review}
}

// TestTaintRulesOfAllVersions: the API server sends a DeviceTaintRule in the version
// of the webhook configuration or, on older servers, in the only one that it has.
func TestTaintRulesOfAllVersions(t *testing.T) {
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		object := fmt.Sprintf(`{"apiVersion": "resource.k8s.io/%s", "kind": "DeviceTaintRule", "metadata": {"name": "drain"},
			"spec": {"taint": {"key": "not a key", "effect": "NoExecute"}}}`, version)
		answer, err := review.Reviewer{}.Review(request(version, "DeviceTaintRule", "", object, ""))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Name != "drain" || len(answer.Changes) != 1 || answer.Changes[0].Pointer != "/spec/taint/timeAdded" {
			t.Errorf("%s: %+v", version, answer)
		}
		if !answer.Denied() || answer.Findings[0].Rule != "taint-key" || answer.Findings[0].Path != "spec.taint.key" {
			t.Errorf("%s: %+v", version, answer.Findings)
		}
	}
}

// TestUnknownKinds: a webhook configuration that sends what we cannot judge must be
// corrected, so the error says what is sent and what would be right.
func TestUnknownKinds(t *testing.T) {
	for _, test := range []struct {
		group, version, kind, subresource, says string
	}{
		{"resource.k8s.io", "v1beta1", "ResourceClaim", "", "ResourceClaim.resource.k8s.io (resource.k8s.io/v1beta1)"},
		{"resource.k8s.io", "v1beta1", "DeviceTaintRule", "", "(resource.k8s.io/v1beta1)"},
		{"resource.k8s.io", "v1", "ResourceClaim", "scale", "ResourceClaim.resource.k8s.io/scale"},
		{"resource.k8s.io", "v1", "ResourceSlice", "status", "ResourceSlice.resource.k8s.io/status"},
		{"resource.k8s.io", "v1", "PodSchedulingContext", "", "PodSchedulingContext.resource.k8s.io"},
		{"apps", "v1", "ResourceClaim", "", "ResourceClaim.apps (apps/v1)"},
		{"", "v1", "Pod", "", "Pod (v1)"},
	} {
		req := request(test.version, test.kind, test.subresource, "{}", "")
		req.Kind.Group = test.group
		for name, step := range steps(review.Reviewer{}) {
			_, err := step(req)
			if unknown := (review.UnknownKindError{}); !errors.As(err, &unknown) || unknown.Kind != req.Kind {
				t.Errorf("%s %v: %v", name, test, err)
				continue
			}
			for _, word := range []string{test.says, "ResourceClaimTemplate", "correct the rules of the webhook configuration"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: the error lacks %q: %v", name, word, err)
				}
			}
		}
	}
}

// TestUnreadableStored: an update of what cannot be read is checked as a creation, and says so.
func TestUnreadableStored(t *testing.T) {
	answer, err := review.Reviewer{}.Validate(request("v1", "DeviceTaintRule", "", `{"spec": {"taint": {"key": "not a key"}}}`, "{"))
	says := slices.ContainsFunc(answer.Findings, func(f review.Finding) bool {
		return f.Severity == validate.Warning && strings.Contains(f.Message, "the stored object is no v1.DeviceTaintRule")
	})
	if err != nil || !says || !answer.Denied() {
		t.Errorf("got %+v, %v, want a denial and a warning", answer, err)
	}
}

func TestUnreadableObjects(t *testing.T) {
	for _, test := range []struct{ name, object, old, says string }{
		{"nothing", "", "", "the request has no object: a DeviceTaintRule is expected as JSON"},
		{"no JSON", "{", "", "the object is no v1.DeviceTaintRule: unexpected end of JSON"},
		{"a list", "[]", "", "the object is no v1.DeviceTaintRule"},
		{"wrong type", `{"spec": {"taint": {"key": 3}}}`, "", "taint.key of type string"},
		{"a time that is none", `{"spec": {"taint": {"timeAdded": "now"}}}`, "", `"now"`},
		{"deeper than any object", strings.Repeat(`{"spec":`, 20000), "", "exceeded max depth"},
	} {
		for name, step := range steps(review.Reviewer{}) {
			if _, err := step(request("v1", "DeviceTaintRule", "", test.object, test.old)); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s, %s: %v, want an error with %q", test.name, name, err, test.says)
			}
		}
	}
}

// TestStoredIsReadOnlyIfNeeded: behind an API server, which checks updates itself, a good
// object passes whatever is stored.
func TestStoredIsReadOnlyIfNeeded(t *testing.T) {
	answer, err := review.Reviewer{InCluster: true}.Validate(request("v1", "DeviceClass", "", `{"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpu.example.com\""}}]}}`, "garbage"))
	if err != nil || answer.Denied() {
		t.Errorf("%+v, %v", answer, err)
	}
}

// TestEmptyObjects: nothing at all in an object is judged like anything else.
func TestEmptyObjects(t *testing.T) {
	for kind, rules := range map[string][]string{
		"ResourceSlice": nil, "ResourceClaim": nil, "ResourceClaimTemplate": nil, "DeviceClass": nil,
		"DeviceTaintRule": {"taint-key", "taint-effect"},
	} {
		for _, object := range []string{`{}`, `{"metadata": {}, "spec": {}}`, `{"spec": null}`} {
			answer, err := review.Reviewer{}.Review(request("v1", kind, "", object, ""))
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			for _, rule := range rules {
				if !slices.ContainsFunc(answer.Findings, func(f review.Finding) bool { return f.Rule == rule }) {
					t.Errorf("%s: no finding of %s: %v", kind, rule, answer.Findings)
				}
			}
		}
	}
}

// TestErrorsComeFirst, so that the first finding says whether a write is denied.
func TestErrorsComeFirst(t *testing.T) {
	const old = `{"spec": {"devices": [{"name": "gpu-0", "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}, {"name": "gpu-1"}]}}`
	const obj = `{"spec": {"devices": [{"name": "gpu-0", "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]},
		{"name": "gpu-1", "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}]}}`
	reviewer := review.Reviewer{InCluster: true, Limits: validate.Limits{TaintsPerDevice: 1}}
	answer, err := reviewer.Review(request("v1", "ResourceSlice", "", obj, old))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range answer.Findings {
		got = append(got, f.Severity.String()+" "+f.Path)
	}
	want := []string{"error spec.devices[gpu-1].taints", "warning spec.devices[gpu-0].taints"}
	if !slices.Equal(got, want) || !answer.Denied() {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReviewValidatesWhatItMutated: a toleration without an operator is completed
// before it is judged.
func TestReviewValidatesWhatItMutated(t *testing.T) {
	const object = `{"metadata": {"generateName": "job-"}, "spec": {"devices": {"requests": [
		{"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "example.com/a"}]}}]}}}`
	req := request("v1", "ResourceClaim", "", object, "")
	if answer, err := (review.Reviewer{}).Validate(req); err != nil || !answer.Denied() {
		t.Errorf("alone, Validate misses the operator: %+v, %v", answer, err)
	}
	answer, err := review.Reviewer{}.Review(req)
	if err != nil || answer.Denied() || len(answer.Changes) != 2 || answer.Name != "job-*" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// TestInCluster: behind an API server the mirror rules are silent, the others are not.
func TestInCluster(t *testing.T) {
	const object = `{"metadata": {"name": "training"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 33, "tolerations": [{"key": "not a key", "operator": "Exists"}]}}]}}}`
	for inCluster, want := range map[bool]int{false: 2, true: 1} {
		answer, err := review.Reviewer{InCluster: inCluster}.Validate(request("v1", "ResourceClaim", "", object, ""))
		if err != nil || len(answer.Findings) != want {
			t.Errorf("in cluster %t: %v, %v", inCluster, answer.Findings, err)
		}
	}
}
