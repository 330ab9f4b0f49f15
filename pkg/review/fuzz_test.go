package review_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// written are all that the pipeline judges.
var written = []struct{ version, kind, subresource string }{
	{"v1", "ResourceSlice", ""}, {"v1", "ResourceClaim", ""}, {"v1", "ResourceClaim", "status"},
	{"v1", "ResourceClaimTemplate", ""}, {"v1", "DeviceClass", ""},
	{"v1", "DeviceTaintRule", ""}, {"v1beta2", "DeviceTaintRule", ""}, {"v1alpha3", "DeviceTaintRule", ""},
}

// FuzzReview gives any bytes to the pipeline, as the webhook does with what it is
// sent. It must not panic, must answer alike twice, also to an object that it has decoded
// before, and the answer must have a bound that does not depend on what is written.
func FuzzReview(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[", `{"spec": null}`, "\xff",
		`{"metadata": {"name": "x", "finalizers": null}, "status": {"allocation": {}}}`,
		`{"spec": {"devices": [{"name": "0", "attributes": {"a/b/c": {"ints": [1]}, "": {"string": "x"}}, "capacity": {"c": {"value": "1e9"}},
			"taints": [{}, {"key": "a", "timeAdded": "2026-01-02T03:04:05Z"}]}]}}`,
		`{"spec": {"devices": {"requests": [{"name": "", "exactly": {"count": -1, "tolerations": [{}]}, "firstAvailable": [{}, {"count": 9223372036854775807}]}]}}}`,
		`{"spec": {"spec": {"devices": {"requests": [{"exactly": {"count": 9223372036854775807, "allocationMode": "All"}}]}}}}`,
		`{"spec": {"taint": {"key": "a b", "value": "-", "effect": "Evict", "timeAdded": null}}}`,
	} {
		f.Add([]byte(seed), []byte(seed))
		f.Add([]byte(seed), []byte(nil))
		f.Add([]byte(seed), []byte("{}"))
	}
	f.Fuzz(func(t *testing.T, object, old []byte) {
		decoded := map[string]*runtime.Object{}
		for _, w := range written {
			if decoded[w.kind] == nil {
				decoded[w.kind] = new(runtime.Object)
			}
			for name, step := range steps(review.Reviewer{}) {
				req := request(w.version, w.kind, w.subresource, string(object), string(old))
				answer, err := step(req)
				req.Decoded = decoded[w.kind]
				again, secondErr := step(req)
				if diff := cmp.Diff(answer, again); diff != "" || (err == nil) != (secondErr == nil) {
					t.Errorf("%s %v: another answer the second time: %v, %v\n%s", name, w, err, secondErr, diff)
				}
				checkAnswer(t, answer)
			}
		}
	})
}

// maxChanges is that of a slice with the most devices and taints.
const maxChanges = 128 * 16

func checkAnswer(t *testing.T, answer review.Answer) {
	t.Helper()
	if len(answer.Changes) > maxChanges {
		t.Errorf("%d changes", len(answer.Changes))
	}
	for i, finding := range answer.Findings {
		if finding.Rule == "" || finding.Path == "" || finding.Message == "" {
			t.Errorf("incomplete: %+v", finding)
		}
		if i > 0 && finding.Severity < answer.Findings[i-1].Severity {
			t.Errorf("findings are not in order: %v", answer.Findings)
		}
	}
	if answer.Denied() != (len(answer.Findings) > 0 && answer.Findings[0].Severity == validate.Error) {
		t.Errorf("denied: %t with %v", answer.Denied(), answer.Findings)
	}
}
