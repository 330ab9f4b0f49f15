package cli_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// hostileObjects are a cluster. The test adds to every text in it that a tenant or a driver sets.
const hostileObjects = `
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: slice}
  spec:
    driver: driver
    pool: {name: pool, generation: 1, resourceSliceCount: 1}
    nodeName: node
    devices:
    - name: device
      attributes: {model: {string: A100}, driver/list: {version: 1.0.0}}
      capacity: {memory: {value: =80Gi}}
      taints: [{key: lost, value: text, effect: =NoExecute}]
    - {name: free, attributes: {model: {string: A100}}}
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: class}
  spec: {selectors: [{cel: {expression: "=device.driver != ''"}}]}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: claim, namespace: team, uid: uid-1, annotations: {note: text}, labels: {label: text}}
  spec: {devices: {requests: [{name: request, exactly: {deviceClassName: class, tolerations: [{key: key}]}}]}}
  status:
    allocation: {devices: {results: [{request: request, driver: driver, pool: pool, device: device}]}}
    reservedFor: [{resource: =pods, name: pod, uid: uid-2}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: waiting, namespace: team, uid: uid-3}
  spec: {devices: {requests: [{name: request, exactly: {deviceClassName: class, selectors: [{cel: {expression: "=device.driver == 'a' || 'line\\\n' == ''"}}]}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: pod, namespace: team, uid: uid-2, ownerReferences: [{apiVersion: owner/v1, kind: Owner, name: owner, uid: uid-4, controller: true}]}
  spec:
    nodeName: node
    containers: [{name: main, image: image, resources: {claims: [{name: ref}]}}]
    resourceClaims: [{name: ref, resourceClaimName: claim}]
  status: {phase: =Running, conditions: [{type: =PodScheduled, status: ="False", reason: =Unschedulable, message: message}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: waits, namespace: team, uid: uid-5}
  spec:
    containers: [{name: main, image: image, resources: {claims: [{name: ref}]}}]
    resourceClaims: [{name: ref, resourceClaimName: waiting}]
  status: {phase: =Pending, conditions: [{type: =PodScheduled, status: "=False", reason: =Unschedulable, message: message}]}
- apiVersion: resource.k8s.io/v1
  kind: DeviceTaintRule
  metadata: {name: rule}
  spec: {deviceSelector: {driver: driver}, taint: {key: broken, value: text, effect: =NoExecute}}
- apiVersion: v1
  kind: Node
  metadata: {name: node, labels: {zone: zone}}
- apiVersion: v1
  kind: Namespace
  metadata: {name: team, labels: {label: text}}
`

// hostile changes every text of data, except those that begin with = and what says what an object is.
func hostile(data any, change func(string) string) any {
	switch typed := data.(type) {
	case string:
		if kept, is := strings.CutPrefix(typed, "="); is {
			return kept
		}
		return change(typed)
	case []any:
		for i := range typed {
			typed[i] = hostile(typed[i], change)
		}
	case map[string]any:
		for key, value := range maps.Clone(typed) {
			if key == "kind" || key == "apiVersion" {
				continue
			}
			delete(typed, key)
			if slices.Contains([]string{"model", "memory", "note", "label", "zone", "driver/list"}, key) {
				key = change(key)
			}
			typed[key] = hostile(value, change)
		}
	}
	return data
}

// hostileFile writes a file with the objects.
func hostileFile(t *testing.T, change func(string) string) string {
	t.Helper()
	var objects any
	if err := yaml.Unmarshal([]byte(hostileObjects), &objects); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": hostile(objects, change)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "objects.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPrintable: no text of a tenant, a driver or a file begins a line of what a command prints or of a page of the
// console, or has something that a terminal obeys; and each output shows such a text escaped.
func TestPrintable(t *testing.T) {
	const hidden = "\t\v\x1b[8m\u009b31m\x1b]0;title\a\u202e\u2066\u2028\u2029\u200b\ufeff\U000e0041\x00"
	for name, change := range map[string]func(string) string{
		"before": func(s string) string { return "::error::forged::" + s }, "line before": func(s string) string { return hidden + "\r\n::error::forged::" + s },
		"after": func(s string) string { return s + hidden + "\n::error::forged::" },
	} {
		t.Run(name, func(t *testing.T) { testPrintable(t, hostileFile(t, change), change) })
	}
}

func testPrintable(t *testing.T, file string, change func(string) string) {
	from, team := "--from-files="+file, "-n="+change("team")
	device := change("driver") + "/" + change("pool") + "/" + change("device")
	var all [][]string
	for _, format := range []string{"text", "json", "sarif", "github", "junit"} {
		all = append(all, []string{"lint", "-o", format, file})
	}
	for _, args := range [][]string{
		{"devices"}, {"why", change("waiting"), team}, {"impact", change("rule")}, {"capacity"}, {"whatif", "node", change("node")}, {"audit"},
	} {
		for _, format := range []string{"", "wide", "name", "json", "yaml", "jsonpath={@}"} {
			if args := append(slices.Clone(args), from); format == "" {
				all = append(all, args)
			} else if args[0] != "audit" || !strings.HasPrefix(format, "wide") && format != "name" {
				all = append(all, append(args, "-o", format))
			}
		}
	}
	answers := len(all)
	all = append(all, [][]string{
		{"lint", "--verdicts", file}, {"policy", "eval", file}, {"capacity", from, "--by", "model"}, {"capacity", from, "--by", "node"}, {"capacity", from, "--by", "namespace"},
		{"why", "pod/" + change("waits"), team, from}, {"why", "pod/" + change("pod"), team, from}, {"impact", device, change("example.com/k") + ":NoExecute", from}, {"report", from}, {"report", from, "-o", "wide"},
		{"whatif", "drain", device, from}, {"fit", change("a"), from},
		{"why", change("a"), from}, {"devices", change("a"), from}, {"explain", change("a")}, {change("a")}, {"devices", "--" + change("a")}, {"devices", "-o", change("a")}, {"lint", change("a")},
		{"policy", "explain", change("a")}, {"devices", "--context", change("a")},
	}...)
	for i, args := range all {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), args, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		text := out.String() + errs.String()
		checkPrinted(t, strings.Join(args, " "), text, slices.Contains(args, "github"))
		if !strings.Contains(text, "forged") || i < answers && code == cmdutil.ExitFailed && args[0] != "audit" {
			t.Errorf("%q ends with %d and shows no text of the objects: %s", args, code, text)
		}
	}
	folder := t.TempDir()
	var errs bytes.Buffer
	if code := cli.Run(t.Context(), []string{"console", "--export", folder, from}, cmdutil.Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}); code != 0 {
		t.Errorf("console: %d: %s", code, &errs)
	}
	pages := 0
	if err := fs.WalkDir(os.DirFS(folder), ".", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) != ".html" {
			return err
		}
		pages++
		text, err := os.ReadFile(filepath.Join(folder, name))
		checkPrinted(t, name, string(text), false)
		return err
	}); err != nil || pages < 3 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

func checkPrinted(t *testing.T, what, text string, commands bool) {
	t.Helper()
	for line := range strings.Lines(text) {
		if start := strings.TrimSpace(line); strings.HasPrefix(start, "::") && !commands || strings.HasPrefix(start, "::error::forged") {
			t.Errorf("%q prints the line %q", what, line)
		}
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%q prints %q in %q", what, r, text)
			return
		}
	}
}
