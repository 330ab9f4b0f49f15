package webhook

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func reviewText(t *testing.T) []byte {
	t.Helper()
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"},
		Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "pods"}, SubResource: "eviction",
		Name: "a", Namespace: "team", Operation: admissionv1.Create,
		UserInfo: authenticationv1.UserInfo{UID: "7", Username: "jane \"j\" doe", Groups: []string{"username"}, Extra: map[string]authenticationv1.ExtraValue{"username": {"x"}}},
		Object:   runtime.RawExtension{Raw: []byte(`{"namespace": "other"}`)}, OldObject: runtime.RawExtension{Raw: []byte(`{}`)},
	}}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	data, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHeadIsReadUpToTheObject(t *testing.T) {
	want := head{"admission.k8s.io/v1", "1", "apps", "pods", "eviction", "team", admissionv1.Create, `jane "j" doe`}
	if got := parseHead(reviewText(t)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A part of a request that is cut off anywhere, or has values of other types, gives a part of
// the head.
func TestHeadOfWhatCannotBeRead(t *testing.T) {
	data, whole := reviewText(t), parseHead(reviewText(t))
	for length := range data {
		part := parseHead(data[:length])
		for _, pair := range [][2]string{{part.namespace, whole.namespace}, {part.user, whole.user}, {part.resource, whole.resource}, {string(part.operation), string(whole.operation)}} {
			if pair[0] != "" && pair[0] != pair[1] {
				t.Fatalf("%d bytes: %q, want %q or nothing", length, pair[0], pair[1])
			}
		}
	}
	for text, want := range map[string]head{
		``: {}, `[]`: {}, `{"request": []}`: {},
		`{"request": {"namespace": null, "operation": "CREATE"}}`:                      {operation: admissionv1.Create},
		`{"request": {"namespace": 7, "operation": "CREATE"}}`:                         {},
		`{"request": {"uid": "1", "userInfo": "root", "operation": "CREATE"}}`:         {uid: "1"},
		`{"request": {"userInfo": {"username": "a"}, "object": {}, "namespace": "b"}}`: {user: "a"},
		// As decoders read it: the last of two fields counts, and a name may have escapes.
		`{"request": {"userInfo": {"username": "a"}, "userInfo": {"username": "b"}}}`: {user: "b"},
		`{"request": {"user\u0049nfo": {"user\u006eame": "a\u0062"}}}`:                {user: "ab"},
	} {
		if got := parseHead([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
