package guard_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// TestDeadWebhook stops dra-steward: with the chart's failurePolicy Ignore the
// cluster goes on, and what would have been denied passes.
func TestDeadWebhook(t *testing.T) {
	g, c, _ := guarded(t, nil)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	claims := c.ResourceV1().ResourceClaims(namespace)
	var tolerations []resourceapi.DeviceToleration
	for i := range 17 {
		tolerations = append(tolerations, resourceapi.DeviceToleration{Key: fmt.Sprint("example.com/fault-", i), Operator: resourceapi.DeviceTolerationOpExists})
	}
	if _, err := claims.Create(t.Context(), claim("unguarded", tolerations...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice("unguarded", gpus(2)...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.ResourceV1().ResourceSlices().Delete(t.Context(), "unguarded", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteClaim(t, c, "unguarded")
}

// TestOddRequests sends what no API server should, and sees that the server lives and
// says what is wrong.
func TestOddRequests(t *testing.T) {
	g, c, _ := guarded(t, nil)
	huge := claim("huge")
	huge.Annotations = map[string]string{"huge": strings.Repeat("x", 3<<20)}
	for _, test := range []struct {
		name, body, want string
		allowed          bool
	}{
		{"malformed", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1"`, "unexpected end of JSON input", false},
		{"no object", review(t, "ResourceClaim", nil), "has no object", false},
		{"object of another shape", review(t, "ResourceClaim", []byte(`{"spec":[1]}`)), "json: cannot unmarshal array", false},
		{"wrong kind", review(t, "Pod", []byte(`{}`)), "no rules for Pod", false},
		{"huge", review(t, "ResourceClaim", marshal(t, huge)), "", true},
		{"larger than any object", strings.Repeat(" ", 8<<20), "too large", false},
	} {
		for _, path := range []string{"/mutate", "/validate"} {
			t.Run(test.name+path, func(t *testing.T) {
				response := post(t, g, path, test.body)
				if response.Allowed != test.allowed || !strings.Contains(message(response), test.want) {
					t.Errorf("allowed %v with message %q, want %v and %q", response.Allowed, message(response), test.allowed, test.want)
				}
			})
		}
	}
	if _, err := c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim("after"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	deleteClaim(t, c, "after")
}

func review(t *testing.T, kind string, object []byte) string {
	t.Helper()
	group := resourceapi.GroupName
	if kind == "Pod" {
		group = ""
	}
	return string(marshal(t, admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind: metav1.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		},
	}))
}

func marshal(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func post(t *testing.T, g *guard.Guard, path, body string) *admissionv1.AdmissionResponse {
	t.Helper()
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(g.Authority())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(g.URL(path), "application/json", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(data, &review); err != nil || review.Response == nil {
		t.Fatalf("%v in answer %q", err, data)
	}
	return review.Response
}

func message(response *admissionv1.AdmissionResponse) string {
	if response.Result == nil {
		return ""
	}
	return response.Result.Message
}
