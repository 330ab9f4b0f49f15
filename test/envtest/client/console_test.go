package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// What testConsole creates.
const (
	evicting = `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: console}
spec: {deviceSelector: {driver: gpu.example.com, pool: node-1, device: gpu-0}, taint: {key: example.com/console, effect: NoExecute}}
`
	consoleDrain = `
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: console}
spec: {devices: [{driver: gpu.example.com, pool: node-1, device: gpu-1}]}
`
	consoleEvent = `
apiVersion: v1
kind: Event
metadata: {name: console, namespace: team-a}
involvedObject: {apiVersion: v1, kind: Pod, namespace: team-a, name: train-0}
type: Normal
reason: ConsoleTest
message: "console <b>"
`
	consoleClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: console, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
`
	namespaceRole = `
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: console-slices}
  rules: [{apiGroups: [resource.k8s.io], resources: [resourceslices, deviceclasses], verbs: [list, watch]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: console-slices}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: console-slices}
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: console-tenant}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: Role
  metadata: {name: console-claims, namespace: default}
  rules: [{apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [list, watch]}]
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: console-claims, namespace: default}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: console-claims}
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: console-tenant}]
`
)

// testConsole: the console follows a taint and a drain of a real cluster, says that it is not current
// while the API server is away, and goes on after it.
func testConsole(t *testing.T) {
	removeRules(t)
	f := follow(t, ours(t, "console --config ../../../examples/site.yaml"))
	b := enter(t, f)
	if text := b.get("/?group=none"); !strings.Contains(text, `"c":"AJ"`) || strings.Contains(text, "partial view") {
		t.Errorf("the map: %.3000s", text)
	}
	if text := b.get("/device?driver=gpu.example.com&pool=node-1&device=gpu-1"); !strings.Contains(text, "blocked NoController: team-a/train-0") {
		t.Errorf("the device: %s", text)
	}
	b.reads()
	events := b.events()
	begin := time.Now()
	apply(t, evicting)
	events.wants(`event: cells.*\[0,"G"\]`)
	t.Logf("the page hears of a taint %v after kubectl began", time.Since(begin).Round(time.Millisecond))
	apply(t, consoleDrain)
	events.wants(`event: cells.*\[1,"Q"\]`)
	if text := b.get("/drain?name=console"); !strings.Contains(text, "waiting for the controller") {
		t.Errorf("the drain: %s", text)
	}
	if err := cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	events.wants(`event: stale.*the API server cannot be reached`, `event: stale.*"reason":""`)
	for _, name := range []string{"devicetaintrule/console", "devicedrain/console"} {
		if out, err := cluster.Kubectl(t.Context(), "delete", name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for !strings.Contains(b.get("/map.json?group=none"), `"c":"AJ"`) {
		events.wants(`event: cells`)
	}
	if code := f.interrupt(); code != cmdutil.ExitClean {
		t.Errorf("Ctrl-C: exit code %d", code)
	}
}

// reads opens the pages that read when they are opened: events of a pod, policies, and the report.
func (b *browser) reads() {
	b.t.Helper()
	apply(b.t, consoleEvent)
	for address, wants := range map[string][]string{
		"/pod?namespace=team-a&name=train-0":                      {"ConsoleTest", "console &lt;b&gt;"},
		"/device?driver=gpu.example.com&pool=node-1&device=gpu-1": {"Findings of its node", "has reported none"},
		"/policies":        {"DRA-TOL-001", "Mode of the ladder", "Unknown: no replica of the webhook"},
		"/report?make=yes": {"data-step=", "stored objects checked as if written now"},
	} {
		text := b.get(address)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				b.t.Errorf("%s does not have %q:\n%s", address, want, text)
			}
		}
		if strings.Contains(text, "not allowed to list the events") {
			b.t.Errorf("%s: an administrator is not allowed to list events", address)
		}
	}
	var ladder struct {
		Steps []struct {
			Mode    string
			Refused struct{ Objects int }
		}
	}
	_, out, _ := run(b.t, "report", "--kubeconfig="+cluster.Kubeconfig(), "--config=../../../examples/site.yaml", "-o=json")
	if err := json.Unmarshal([]byte(out), &ladder); err != nil || len(ladder.Steps) == 0 {
		b.t.Fatalf("%v: %s", err, out)
	}
	text := b.get("/report")
	for _, step := range ladder.Steps {
		if row := fmt.Sprintf(`<tr data-step="%s"><th scope="row">%s( \(today\))?</th><td class="number">%d</td>`, step.Mode, step.Mode, step.Refused.Objects); !regexp.MustCompile(row).MatchString(text) {
			b.t.Errorf("the report has no row %s:\n%s", row, text)
		}
	}
}

// testConsoleOfTenant: a user who is allowed to read the claims of one namespace sees devices
// without a visible claim as unknown.
func testConsoleOfTenant(t *testing.T) {
	apply(t, namespaceRole)
	command := ours(t, "console --namespace default")
	command.Args[len(command.Args)-1] = "--kubeconfig=" + must(cluster.UserKubeconfig("console-tenant"))(t)
	apply(t, consoleClaim)
	f := follow(t, command)
	b := enter(t, f)
	if text := b.get("/claim?namespace=default&name=console"); !strings.Contains(text, "You are not allowed to list the events of namespace default.") {
		t.Errorf("the claim: %s", text)
	}
	if text := b.get("/policies"); !strings.Contains(text, "cannot read the ConfigMaps of the release in namespace dra-steward") || !strings.Contains(text, "--release-namespace") {
		t.Errorf("the policies: %s", text)
	}
	text := b.get("/?group=none")
	for _, want := range []string{`"c":"SS"`, "Partial view", "claims of other namespaces cannot be read", "nodes cannot be read", "DeviceDrains cannot be read"} {
		if !strings.Contains(text, want) {
			t.Errorf("the map does not have %q:\n%s", want, text)
		}
	}
}

// A browser reads a console.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
}

// enter opens the address that a console prints.
func enter(t *testing.T, f *followed) *browser {
	t.Helper()
	address := ""
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for found := false; !found; {
		select {
		case line, more := <-f.lines:
			if !more {
				t.Fatalf("%s ended", f.cmd)
			}
			address, found = strings.CutPrefix(line, "open ")
		case <-ctx.Done():
			t.Fatalf("%s prints no address", f.cmd)
		}
	}
	b := &browser{t: t, client: &http.Client{Jar: must(cookiejar.New(nil))(t)}}
	b.base, _, _ = strings.Cut(address, "/?")
	b.get(strings.TrimPrefix(address, b.base))
	return b
}

func (b *browser) get(path string) string {
	b.t.Helper()
	answer := must(b.client.Get(b.base + path))(b.t)
	defer answer.Body.Close()
	text := must(io.ReadAll(answer.Body))(b.t)
	if answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s %s", path, answer.Status, text)
	}
	return string(text)
}

// stream is what an open page hears.
type stream struct {
	t     *testing.T
	lines chan string
}

// events listens for changes.
func (b *browser) events() stream {
	b.t.Helper()
	r := must(http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+"/events", nil))(b.t)
	answer := must(b.client.Do(r))(b.t)
	s := stream{b.t, make(chan string, 1000)}
	go func() {
		defer answer.Body.Close()
		event := ""
		for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
			if event += scanner.Text() + " "; scanner.Text() == "" {
				s.lines <- event
				event = ""
			}
		}
		close(s.lines)
	}()
	return s
}

// wants waits for events that match, in this order.
func (s stream) wants(patterns ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var seen []string
	for _, pattern := range patterns {
		for matches := false; !matches; {
			select {
			case event, more := <-s.lines:
				if seen = append(seen, event); !more {
					s.t.Fatalf("the stream ended without %q: %q", pattern, seen)
				}
				matches = regexp.MustCompile(pattern).MatchString(event)
			case <-ctx.Done():
				s.t.Fatalf("no event %q in %q", pattern, seen)
			}
		}
	}
}
