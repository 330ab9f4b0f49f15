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

// TestCompleteOwnTypes: the shell completes drains, rolls, pools and drivers by what an API server has.
func TestCompleteOwnTypes(t *testing.T) {
	list := func(kind, items string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind": "%s", "apiVersion": "%s", "metadata": {"resourceVersion": "1"}, "items": [%s]}`, kind,
				map[bool]string{true: "resource.k8s.io/v1", false: "dra-steward.io/v1alpha1"}[kind == "ResourceSliceList"], items)
		}
	}
	api := http.NewServeMux()
	api.Handle("/apis/dra-steward.io/v1alpha1/devicedrains", list("DeviceDrainList", `{"metadata": {"name": "fan"}}`))
	api.Handle("/apis/dra-steward.io/v1alpha1/devicerolls", list("DeviceRollList", `{"metadata": {"name": "firmware"}}`))
	api.Handle("/apis/resource.k8s.io/v1/resourceslices", list("ResourceSliceList",
		`{"metadata": {"name": "a"}, "spec": {"driver": "gpu.example.com", "pool": {"name": "node-1", "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}}`))
	server := httptest.NewTLSServer(api)
	defer server.Close()
	for typed, want := range map[string][]string{
		"drain --cancel ":          {"fan"},
		"drain --pool ":            {"node-1"},
		"roll ":                    {"gpu.example.com", "firmware"},
		"roll --continue ":         {"gpu.example.com", "firmware"},
		"roll nodes ":              {"gpu.example.com", "firmware"},
		"acknowledge devicedrain/": {"devicedrain/fan"},
		"acknowledge gpu":          {"gpu.example.com/node-1/gpu-0", "devicedrain/fan"},
		"whatif patch ":            {":4"},
		"whatif claims -f ":        {"yaml"},
	} {
		var out, problems bytes.Buffer
		at := 2 // after the command
		if strings.HasPrefix(typed, "whatif") {
			at = 3
		}
		args := slices.Insert(append([]string{"__complete"}, strings.Split(typed, " ")...), at, "--server="+server.URL, "--insecure-skip-tls-verify")
		Run(t.Context(), args, cmdutil.Streams{Out: &out, Err: &problems})
		for _, name := range want {
			if !slices.Contains(strings.Split(out.String(), "\n"), name) {
				t.Errorf("%q: no %q in\n%s%s", typed, name, &out, &problems)
			}
		}
	}
}
