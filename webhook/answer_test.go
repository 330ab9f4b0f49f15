package webhook

import (
	"bytes"
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FuzzAnswer: an answer is what encoding/json writes.
func FuzzAnswer(f *testing.F) {
	f.Add("uid", "warning: a\nb", "some", int32(200), []byte("[]"), true)
	f.Add(`a"b\<&>`, "\u2028\x00\x7f", "\xff", int32(422), []byte(nil), false)
	f.Add("", "", "", int32(0), []byte(nil), false)
	f.Fuzz(func(t *testing.T, uid, one, other string, code int32, patch []byte, allowed bool) {
		response := &admissionv1.AdmissionResponse{UID: types.UID(uid), Allowed: allowed, Patch: patch}
		if one != other {
			response.Warnings = []string{one, other}
			response.AuditAnnotations = map[string]string{one: other, other: one}
		}
		if patch != nil {
			kind := admissionv1.PatchTypeJSONPatch
			response.PatchType = &kind
		}
		if code > 0 {
			response.Result = &metav1.Status{Code: code}
		}
		if code > 400 {
			response.Result.Message, response.Result.Details = one, &metav1.StatusDetails{Name: other, Causes: []metav1.StatusCause{{Field: one}}}
		}
		got, err := answerOf(response)
		if err != nil {
			t.Fatal(err)
		}
		review := admissionv1.AdmissionReview{Response: response}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(review); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("got  %q\nwant %q", got, want.Bytes())
		}
	})
}
