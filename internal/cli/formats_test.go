package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// answers is a run of every command with -o that has an answer. FILES are the objects of a cluster,
// SERVER is an API server with a drain, a roll and a rule.
func answers() map[string]string {
	const taint = "gpu.example.com/node-1/gpu-0 example.com/broken:NoExecute FILES"
	return map[string]string{
		"audit": "FILES", "capacity": "--by node FILES", "devices": "FILES", "drain": "--list SERVER", "fit": "-f ../../docs/foresight/two.yaml FILES",
		"history": "--from-files ../../docs/history/configmaps.yaml", "impact": taint, "lint": "../../examples/denied",
		"node check":   "--host-root testdata --device-plugins-dir= nvidia.com/gpu=0",
		"policy bench": "--time 1ns ../../examples/admitted", "policy test": "--run test_tenant_is_denied", "report": "FILES", "roll": "--list SERVER", "roll nodes": "--list SERVER",
		"taint": "--list SERVER", "version": "",
		"whatif claims": "-f ../../docs/foresight/two.yaml --replicas 9 FILES", "whatif class": "-f testdata/class.yaml FILES", "whatif drain": "node/node-1 FILES",
		"whatif node": "node-1 FILES", "whatif patch": "-f testdata/patch.yaml FILES", "whatif taint": taint, "whatif upgrade": "--to 1.37 FILES",
		"why": "pod/pair-0 -n team-a FILES",
	}
}

// unanswered are commands with -o that have an answer in other tests only, with the reason.
func unanswered() map[string]string {
	return map[string]string{"node holdings": "it asks a kubelet: TestHoldings in internal/cli/node"}
}

// oneEach is an API server that has one object of each kind of ours, and a DeviceTaintRule.
func oneEach(t *testing.T) *httptest.Server {
	t.Helper()
	list := func(version, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind": "%sList", "apiVersion": "%s", "metadata": {"resourceVersion": "1"}, "items": [{"apiVersion": "%[2]s", "kind": "%[1]s",
"metadata": {"name": "one"}, "spec": {"driver": "gpu.example.com", "taint": {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2026-11-25T00:00:00Z"}}}]}`, kind, version)
		}
	}
	api := http.NewServeMux()
	api.HandleFunc("/apis/resource.k8s.io/v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "resource.k8s.io/v1", "resources": [{"name": "devicetaintrules", "kind": "DeviceTaintRule", "namespaced": false, "verbs": ["list"]}]}`)
	})
	api.Handle("/apis/dra-steward.io/v1alpha1/devicedrains", list("dra-steward.io/v1alpha1", "DeviceDrain"))
	api.Handle("/apis/dra-steward.io/v1alpha1/devicerolls", list("dra-steward.io/v1alpha1", "DeviceRoll"))
	api.Handle("/apis/resource.k8s.io/v1/devicetaintrules", list("resource.k8s.io/v1", "DeviceTaintRule"))
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	return server
}

// ofKubectl is a name that "kubectl get" takes, of the kinds that commands name; ofDevice is one of a
// device, which is no object of Kubernetes: our commands take it.
var (
	ofKubectl = regexp.MustCompile(`^(pod|node|namespace|devicedrain\.dra-steward\.io|deviceroll\.dra-steward\.io|(deviceclass|devicetaintrule|resourceclaim)\.resource\.k8s\.io)/[a-z0-9.-]+$`)
	ofDevice  = regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9./-]+/[a-z0-9-]+$`)
)

// TestFormats: every command with -o answers in each format that it offers, and names the formats if it is
// asked for another one.
func TestFormats(t *testing.T) {
	server, runs, names := oneEach(t), answers(), 0
	each(Command(cmdutil.Streams{}), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "dra-steward ")
		if c.Flags().Lookup("output") == nil || unanswered()[path] != "" {
			return
		}
		text, has := runs[path]
		if delete(runs, path); !has {
			t.Errorf("answers does not have %s, which has -o", path)
			return
		}
		args := append(strings.Fields(path), strings.Fields(strings.NewReplacer("FILES", "--from-files ../../docs/foresight/cluster.yaml",
			"SERVER", "--insecure-skip-tls-verify --server "+server.URL).Replace(text))...)
		formats := offered(t, path)
		for _, format := range formats {
			t.Run(path+" "+format, func(t *testing.T) {
				code, out, stderr := answer(t, args, format)
				if code == cmdutil.ExitFailed || out == "" && !(format == "name" && strings.HasPrefix(path, "whatif")) { // which names the pods that do not land
					t.Fatalf("exit code %d\n%s%s", code, out, stderr)
				}
				if format == "name" {
					names++
				}
				wellFormed(t, path, format, out)
			})
		}
		holdHeaders(t, path, c, args)
		code, out, stderr := answer(t, args, "nonsense")
		lists := !slices.ContainsFunc(formats, func(format string) bool { return !strings.Contains(stderr, format) })
		if code != cmdutil.ExitFailed || out != "" || !strings.Contains(stderr, `--output "nonsense": must be `) || !lists {
			t.Errorf("%s -o nonsense: exit code %d, want 2 with the formats %q\n%s%s", path, code, formats, out, stderr)
		}
	})
	for path := range runs {
		t.Errorf("answers has %q, which is no command with -o", path)
	}
	if names < 12 {
		t.Errorf("%d commands have -o name", names)
	}
}

// offered are the formats that the shell completes.
func offered(t *testing.T, path string) (formats []string) {
	t.Helper()
	var out, stderr bytes.Buffer
	Run(t.Context(), slices.Concat([]string{"__complete"}, strings.Fields(path), []string{"-o", ""}), cmdutil.Streams{Out: &out, Err: &stderr})
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, ":") {
			formats = append(formats, line)
		}
	}
	return formats
}

// header are the names of the first two columns of a table.
var header = regexp.MustCompile(`(?m)^[A-Z]+ {2,}[A-Z]+`)

// holdHeaders checks that a command that writes a table can leave its headers out. The tables of a report
// are parts of a text.
func holdHeaders(t *testing.T, path string, c *cobra.Command, args []string) {
	t.Helper()
	if path == "report" {
		return
	}
	_, with, _ := answer(t, args, "text")
	_, without, _ := answer(t, append(slices.Clone(args), "--no-headers"), "text")
	if has := c.Flags().Lookup("no-headers") != nil; header.MatchString(with) && (!has || header.MatchString(without)) {
		t.Errorf("%s has --no-headers: %t; text:\n%swith --no-headers:\n%s", path, has, with, without)
	}
}

func answer(t *testing.T, args []string, format string) (code int, out, stderr string) {
	t.Helper()
	format = strings.NewReplacer("TEMPLATE", "{@}", "HEADER:PATH", "A:.metadata.name").Replace(format)
	var stdout, errs bytes.Buffer
	code = Run(t.Context(), append(slices.Clone(args), "-o", format), cmdutil.Streams{Out: &stdout, Err: &errs, In: strings.NewReader("")})
	return code, stdout.String(), errs.String()
}

// wellFormed checks what can be read by machines.
func wellFormed(t *testing.T, path, format, out string) {
	t.Helper()
	var value any
	switch format {
	case "json", "sarif":
		if err := json.Unmarshal([]byte(out), &value); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	case "yaml":
		if err := yaml.Unmarshal([]byte(out), &value); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	case "name":
		form := ofKubectl
		if path == "devices" || path == "history" {
			form = ofDevice
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); !form.MatchString(line) {
				t.Errorf("%q does not have the form %s", line, form)
			}
		}
	}
}
