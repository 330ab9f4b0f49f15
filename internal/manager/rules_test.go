package manager

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestRuleStatusAfterAnUpgrade: a condition is written in the version that is served now; the version is
// asked for again only where a rule is not found.
func TestRuleStatusAfterAnUpgrade(t *testing.T) {
	served, exists, asked := "v1beta2", true, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch group := "/apis/resource.k8s.io/" + served; {
		case r.URL.Path == group:
			asked++
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"devicetaintrules"}]}`)
		case exists && r.URL.Path == group+"/devicetaintrules/broken/status":
			fmt.Fprintf(w, `{"kind":"DeviceTaintRule","apiVersion":"resource.k8s.io/%s","metadata":{"name":"broken"}}`, served)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s := &ruleStatus{config: &rest.Config{Host: server.URL}}
	write := func() error {
		return s.write(t.Context(), &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken", UID: "1"}}, metav1.Condition{Type: "x"})
	}
	for _, version := range []string{"v1beta2", "v1beta2", "v1", "v1"} {
		served = version
		if err := write(); err != nil {
			t.Errorf("%s is served: %v", version, err)
		}
	}
	if asked != 2 {
		t.Errorf("the API server was asked %d times", asked)
	}
	exists = false
	if err := write(); !apierrors.IsNotFound(err) || asked != 3 {
		t.Errorf("the rule is gone: %v, asked %d times", err, asked)
	}
}
