package clusterread

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/faults"
)

// TestWarnOfFaults: an API server of a version with a fault is warned of, another is not, and
// one that does not answer is no error.
func TestWarnOfFaults(t *testing.T) {
	for version, want := range map[string]string{
		"v1.36.2": "warning: the API server is v1.36.2: kube-scheduler 1.36.0 to before 1.36.3: ",
		"v1.36.3": "", "v1.37.0": "", "": "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" || version == "" {
				http.Error(w, "", http.StatusForbidden)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"major": "1", "minor": "36", "gitVersion": %q}`, version)
		}))
		var out bytes.Buffer
		WarnOfFaults(cmdutil.Streams{Err: &out}, &rest.Config{Host: server.URL}, faults.RuleExists)
		server.Close()
		if got := out.String(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q", version, got)
		}
	}
}
