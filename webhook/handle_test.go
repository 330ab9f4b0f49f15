package webhook

import (
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestChanges: a change that removes a value is a JSON patch that removes it, in the order of
// the answer.
func TestChanges(t *testing.T) {
	response := allowed(review.Answer{Changes: []mutate.Change{{Pointer: "/a", Value: 1}, {Pointer: "/b", Remove: true}}})
	var got []string
	for _, patch := range response.Patches {
		got = append(got, patch.Operation+" "+patch.Path)
	}
	if len(got) != 2 || got[0] != "add /a" || got[1] != "remove /b" {
		t.Errorf("got %q", got)
	}
}

// TestRequest: what the API server says of a write reaches the review, and a kind that the
// review does not know is denied as such.
func TestRequest(t *testing.T) {
	var seen review.Request
	h := Options{}.handler("validate", func() review.Reviewer { return review.Reviewer{} }, func(_ review.Reviewer, r review.Request) (review.Answer, error) {
		seen = r
		return review.Answer{}, review.UnknownKindError{}
	})
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "team-a", SubResource: "status", DryRun: new(true)}}
	req.UserInfo.Username = "jane"
	response := h.Handle(t.Context(), req)
	if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("got %+v", response)
	}
	if !seen.DryRun || seen.Namespace != "team-a" || seen.Subresource != "status" || seen.User.Username != "jane" {
		t.Errorf("the review sees %+v", seen)
	}
	req.DryRun = nil
	if h.Handle(t.Context(), req); seen.DryRun {
		t.Error("a write that is no dry run is one for the review")
	}
}
