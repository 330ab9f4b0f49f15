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
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
)

// reporting is a component with a version; of none, it does not tell.
func reporting(t *testing.T, path, version, text string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path || version == "" {
			http.Error(w, "", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, text, version)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestFaultCheck: a version of kube-scheduler that has the fault is an error unless it is
// acknowledged; that of a vendor, or of the API server alone, is a warning; and one that does
// not answer is neither.
func TestFaultCheck(t *testing.T) {
	const ofServer, ofScheduler = "warning: the API server is ", "warning: kube-scheduler is "
	for name, tt := range map[string]struct {
		server, scheduler string
		check             FaultCheck
		dry               bool
		warning, err      string
	}{
		"API server":               {server: "v1.36.2", warning: ofServer + "v1.36.2: kube-scheduler 1.36.0 to before 1.36.3: "},
		"fixed":                    {server: "v1.36.3"},
		"newer":                    {server: "v1.37.0"},
		"no answer":                {},
		"scheduler":                {server: "v1.37.0", scheduler: "v1.36.2", err: "kube-scheduler is v1.36.2: kube-scheduler 1.36.0 to before 1.36.3: "},
		"how to continue":          {server: "v1.37.0", scheduler: "v1.36.2", err: "; to continue, add --acknowledge-fault kubernetes#139651"},
		"scheduler of a vendor":    {server: "v1.37.0", scheduler: "v1.36.2-gke.12", warning: ofScheduler + "v1.36.2-gke.12: "},
		"scheduler is fixed":       {server: "v1.36.2", scheduler: "v1.36.3"},
		"scheduler does not tell":  {server: "v1.36.2", scheduler: "-", warning: ofServer + "v1.36.2: "},
		"acknowledged":             {server: "v1.36.2", scheduler: "v1.36.2", check: FaultCheck{Acknowledged: []string{"kubernetes#139651"}}, warning: ofScheduler + "v1.36.2: "},
		"another one acknowledged": {server: "v1.36.2", scheduler: "v1.36.2", check: FaultCheck{Acknowledged: []string{"kubernetes#138882"}}, err: "kubernetes#139651"},
		"dry run":                  {server: "v1.36.2", scheduler: "v1.36.2", dry: true, warning: ofScheduler + "v1.36.2: "},
		"unknown fault":            {server: "v1.37.0", check: FaultCheck{Acknowledged: []string{"139651"}}, err: `--acknowledge-fault "139651": must be one of kubernetes#139651, `},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: reporting(t, "/version", tt.server, `{"major": "1", "minor": "36", "gitVersion": %q}`)}
			if tt.scheduler != "" {
				tt.check.Scheduler.Target = reporting(t, "/metrics", strings.Trim(tt.scheduler, "-"), `kubernetes_build_info{git_version=%q} 1
kubernetes_feature_enabled{name="DRADeviceTaints",stage=""} 1
`) + "/metrics"
			}
			var out bytes.Buffer
			err := tt.check.Check(t.Context(), cmdutil.Streams{Err: &out}, config, faults.RuleExists, tt.dry)
			if got := out.String(); !strings.HasPrefix(got, tt.warning) || (got == "") != (tt.warning == "") {
				t.Errorf("warning %q; want %q", got, tt.warning)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v; want %q", err, tt.err)
			}
		})
	}
}
