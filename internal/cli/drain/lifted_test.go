package drain

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestLeft: cordons that no controller removes are a warning.
func TestLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		reads int // with the cordon
		code  int
		want  bool
	}{
		"removed": {0, http.StatusOK, false}, "removed later": {1, http.StatusOK, false}, "left": {100, http.StatusOK, true}, "not allowed": {100, http.StatusForbidden, false},
	} {
		reads := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			list := resourceapi.DeviceTaintRuleList{TypeMeta: metav1.TypeMeta{Kind: "DeviceTaintRuleList", APIVersion: "resource.k8s.io/v1"}}
			if reads++; reads <= tt.reads && r.URL.Query().Get("labelSelector") == "dra-steward.io/drain in (a,b)" {
				list.Items = []resourceapi.DeviceTaintRule{{TypeMeta: metav1.TypeMeta{Kind: "DeviceTaintRule", APIVersion: "resource.k8s.io/v1"}}}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tt.code)
			_ = json.NewEncoder(w).Encode(list)
		}))
		t.Cleanup(server.Close)
		client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		rules := client.Resource(resourceapi.SchemeGroupVersion.WithResource("devicetaintrules"))
		warnLeft(t.Context(), cmdutil.Streams{Err: &out}, rules, []string{"a", "b"}, 1200*time.Millisecond)
		if strings.Contains(out.String(), "1 DeviceTaintRule of the cordon left: is a controller running") != tt.want || !tt.want && out.Len() > 0 {
			t.Errorf("%s: %q", name, &out)
		}
	}
}
