package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

func TestUninstallRefusesFlags(t *testing.T) {
	for _, args := range [][]string{{"--taint-rules=drop"}, {"--namespace="}, {"--kubeconfig=/does/not/exist"}} {
		var out bytes.Buffer
		if code := Run(t.Context(), append([]string{"uninstall"}, args...), cmdutil.Streams{Out: &out, Err: &out}); code != cmdutil.ExitFailed || !strings.Contains(out.String(), "--") {
			t.Errorf("%q: exit code %d, %s", args, code, &out)
		}
	}
}

// TestUninstallNothing: without a release, uninstall says that there is none, and succeeds; its end is said
// once.
func TestUninstallNothing(t *testing.T) {
	reply := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
	lists := []string{"nodes", "resourceslices", "resourceclaims", "resourceclaimtemplates"}
	leftover := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case r.URL.Path == "/version":
			reply(w, http.StatusOK, `{"gitVersion": "v1.37.0"}`)
		case r.URL.Path == "/apis/resource.k8s.io/v1":
			reply(w, http.StatusOK, `{"kind": "APIResourceList", "groupVersion": "resource.k8s.io/v1", "resources": []}`)
		case r.URL.Path == "/apis/apps/v1/deployments":
			reply(w, http.StatusOK, `{"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {}, "items": []}`)
		case slices.Contains(lists, kind):
			reply(w, http.StatusOK, `{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}`)
		case leftover != "" && kind == leftover:
			reply(w, http.StatusOK, `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}`)
		default:
			reply(w, http.StatusNotFound, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		}
	}))
	defer server.Close()
	for _, tt := range []struct{ leftover, flag, want string }{
		{"", "--dry-run", "nothing to prepare: namespace devices has no Deployment dra-steward-controller and nothing"},
		{"", "--dry-run=server", "nothing to prepare: "},
		{"", "--yes", "nothing to prepare: "},
		{"dra-steward-controller-evictions", "--dry-run", "configmap devices/dra-steward-controller-evictions: deleted (dry run)\ndone; helm uninstall deletes the rest (dry run)\n"},
	} {
		leftover = tt.leftover
		var out, stderr bytes.Buffer
		code := Run(t.Context(), []string{"uninstall", "-n", "devices", tt.flag, "--server=" + server.URL, "--insecure-skip-tls-verify"}, cmdutil.Streams{Out: &out, Err: &stderr})
		if code != cmdutil.ExitClean || !strings.HasPrefix(out.String(), tt.want) || strings.Count(out.String(), "helm uninstall") > 1 || strings.Count(out.String(), "nothing to prepare") > 1 || stderr.Len() > 0 {
			t.Errorf("%+v: exit code %d\n%s%s", tt, code, &out, &stderr)
		}
	}
}
