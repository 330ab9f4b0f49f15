package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/test/chart"
)

// A seen is what a user sees of a command: the exit code, and a text that its first line has, or
// if it fails the last line on standard error. A partial view says so in warnings or notes.
type seen struct {
	code    int
	partial bool
	text    string
}

func (s seen) String() string {
	if s.partial {
		return fmt.Sprintf("%d, partial", s.code)
	}
	return fmt.Sprint(s.code)
}

// A row is a command, and what a person on call and a tenant see of it. A user without rights is
// refused by each.
type row struct {
	args           string
	onCall, tenant seen
}

const (
	device  = driver + "/node-1/gpu-0"
	held    = driver + "/node-1/gpu-1"
	unknown = "you are not allowed to list the claims, pods and PodDisruptionBudgets of all namespaces"
	leaving = "which pods leave is unknown: you are not allowed to list the pods and claims of all namespaces"
)

// forbidden is what the API server says of a verb that a tenant lacks.
func forbidden(what string) seen {
	return seen{code: cmdutil.ExitFailed, text: `User "tenant" cannot ` + what}
}

func fails(text string) seen { return seen{code: cmdutil.ExitFailed, text: text} }

func shows(text string) seen { return seen{text: text} }

func finds(text string) seen { return seen{code: cmdutil.ExitFindings, text: text} }

func partly(text string) seen { return seen{partial: true, text: text} }

// rows are those of docs/cli.md, in an order in which later ones find what earlier ones created.
// FILE is a claim template, FOLDER does not exist, and SOCKET is that of no kubelet.
func rows() []row {
	return []row{
		{"devices -n team-a", shows("DRIVER "), partly("DRIVER ")},
		{"devices -A", shows("DRIVER "), fails("--all-namespaces: resourceclaims.resource.k8s.io is forbidden")},
		{"why pod/train-0 -n team-a", shows("claim team-a/train: allocated: " + held), partly("claim team-a/train: allocated: " + held)},
		{"impact pod/train-0 example.com/a:NoExecute -n team-a", shows("NAMESPACE "), fails(unknown)},
		{"taint " + device + " example.com/matrix:NoSchedule", shows("created: " + device), forbidden(`patch resource "devicetaintrules"`)},
		{"taint --list", shows("NAME "), forbidden(`list resource "devicetaintrules"`)},
		{"untaint " + device + " example.com/matrix", shows("deleted: " + device), fails("you are not allowed to list DeviceTaintRules")},
		{"drain " + device + " --dry-run=server", shows("(dry run)"), forbidden(`list resource "resourceclaims"`)},
		{"drain " + device + " --name matrix", shows("devicedrain matrix created"), forbidden(`create resource "devicedrains"`)},
		{"drain --list", shows("NAME "), forbidden(`list resource "devicedrains"`)},
		{"drain --cancel matrix", shows("devicedrain matrix deleted"), forbidden(`delete resource "devicedrains"`)},
		{"history", shows("no taint, drain or reaction is recorded"), forbidden(`get resource "configmaps"`)},
		{"capacity -n team-a", shows("DRIVER "), partly("DRIVER ")},
		{"fit -f FILE -n team-a", shows("1 pod fits"), partly("1 pod fits")},
		{"whatif taint " + held + " example.com/a:NoExecute", finds("POD "), fails(leaving)},
		{"whatif drain " + held, finds("POD "), fails(leaving)},
		{"whatif node node-1", finds("POD "), fails(leaving)},
		{"roll " + driver + " --driver-selector gpu/app=driver --name matrix --dry-run=server", finds("deviceroll matrix (dry run)"), fails("what the roll does is unknown: you are not allowed to list the nodes")},
		{"roll " + driver + " --driver-selector gpu/app=driver --name matrix", shows("deviceroll matrix created"), forbidden(`create resource "devicerolls"`)},
		{"roll --list", shows("NAME "), forbidden(`list resource "devicerolls"`)},
		{"roll --pause matrix", shows("deviceroll matrix paused"), forbidden(`list resource "devicerolls"`)},
		{"roll --delete matrix", shows("deviceroll matrix deleted"), forbidden(`list resource "devicerolls"`)},
		{"acknowledge devicedrain/sick --reason tested", shows("devicedrain/sick acknowledged"), forbidden(`list resource "devicedrains"`)},
		{"report", partly("stored objects checked"), forbidden(`list resource "configmaps"`)},
		{"audit", shows("objects checked"), fails("you are not allowed to list resourceclaims.resource.k8s.io")},
		{"audit -n team-a", shows("object checked"), fails("you are not allowed to list namespaces, devicetaintrules.resource.k8s.io: grant the verb list")},
		{"console --export FOLDER -n team-a", shows("files written"), partly("files written")},
		{"uninstall --dry-run", fails(`User "on-call" cannot get resource "deployments"`), forbidden(`get resource "deployments"`)},
		{"node holdings --node-name node-1 --pod-resources-socket SOCKET", fails("socket of the kubelet"), forbidden(`list resource "pods"`)},
	}
}

// within is how long a user waits for the answer that a right is missing.
const within = 2 * time.Second

// testRoles runs the commands as a person on call, with the role of the chart, as a tenant, and as
// a user without rights.
func testRoles(t *testing.T) {
	installRoles(t)
	kubeconfigs := map[string]string{}
	for _, user := range []string{"on-call", "tenant", "stranger"} {
		kubeconfigs[user] = must(cluster.UserKubeconfig(user))(t)
	}
	var table strings.Builder
	table.WriteString("| `dra-steward` | on call | tenant | without rights |\n| --- | --- | --- | --- |\n")
	for _, r := range rows() {
		refused := seen{code: cmdutil.ExitFailed, text: `User "stranger" cannot `}
		if strings.HasPrefix(r.args, "audit") {
			refused.text = "you are not allowed to list "
		}
		holdSeen(t, "stranger", kubeconfigs["stranger"], r.args, refused)
		holdSeen(t, "tenant", kubeconfigs["tenant"], r.args, r.tenant)
		holdSeen(t, "on call", kubeconfigs["on-call"], r.args, r.onCall)
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.args, r.onCall, r.tenant, refused)
	}
	holdTable(t, regexp.MustCompile("(?s)\\| `dra-steward` \\| on call .*?\n\n"), table.String())
	t.Run("thresholds", func(t *testing.T) {
		_, out, stderr := run(t, "impact", "node/node-1", "example.com/a:NoExecute", "-o", "json", "--kubeconfig="+kubeconfigs["on-call"])
		if !strings.Contains(out, `"from": "ConfigMap dra-steward/dra-steward"`) || !strings.Contains(out, `"pods": 7`) {
			t.Errorf("not the thresholds of the release:\n%s%s", out, stderr)
		}
	})
}

// holdSeen runs a command as a user.
func holdSeen(t *testing.T, user, kubeconfig, text string, want seen) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "template.yaml")
	if err := os.WriteFile(file, []byte(claimTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("FILE", file, "FOLDER", filepath.Join(dir, "pages"), "SOCKET", filepath.Join(dir, "none.sock")).Replace(text)
	args := append(strings.Fields(text), "--kubeconfig="+kubeconfig)
	begin := time.Now()
	code, out, stderr := run(t, args...)
	took := time.Since(begin)
	for range 3 { // on a busy machine the best of some counts
		if want.code != cmdutil.ExitFailed || took <= within {
			break
		}
		begin = time.Now()
		run(t, args...)
		took = time.Since(begin)
	}
	if want.code == cmdutil.ExitFailed && took > within {
		t.Errorf("%s as %s took %v", text, user, took)
	}
	line, _, _ := strings.Cut(out+stderr, "\n")
	if want.code == cmdutil.ExitFailed {
		line = strings.TrimSpace(stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:])
	}
	partial := code != cmdutil.ExitFailed && regexp.MustCompile(`(?m)^(warning|note): .*(cannot be read|not allowed)`).MatchString(stderr+out)
	if code != want.code || partial != want.partial || !strings.Contains(line, want.text) {
		t.Errorf("%s as %s: exit code %d, partial %t, want %d, %t and %q in the first line (of an error, the last):\n%s%s",
			text, user, code, partial, want.code, want.partial, want.text, out, stderr)
	}
}

// holdTable compares a table of docs/cli.md, or writes it.
func holdTable(t *testing.T, rows *regexp.Regexp, table string) {
	t.Helper()
	page := filepath.Join("..", "..", "..", "docs", "cli.md")
	text := must(os.ReadFile(page))(t)
	want := rows.ReplaceAllLiteral(text, []byte(table+"\n"))
	if !rows.Match(text) {
		t.Fatalf("docs/cli.md has no table for %s", rows)
	}
	if bytes.Equal(text, want) {
		return
	}
	if !*update {
		t.Fatalf("the table of docs/cli.md is not current: run this test with -update; it is\n%s", table)
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

const claimTemplate = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
`

// people are the roles of a tenant, who reads its namespace and all devices, the binding of the role
// on call, and a device that a reaction has drained.
const people = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: team-a}
rules:
  - {apiGroups: [""], resources: [pods, events], verbs: [get, list, watch]}
  - {apiGroups: [resource.k8s.io], resources: [resourceclaims, resourceclaimtemplates], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: team-a}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: tenant}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: devices}
rules: [{apiGroups: [resource.k8s.io], resources: [resourceslices, deviceclasses], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: devices}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: tenant}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: devices}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: on-call}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: on-call}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dra-steward-oncall}
---
apiVersion: dra-steward.io/v1alpha1
kind: DeviceReaction
metadata: {name: sick}
spec: {when: {taint: {key: example.com/xid}}}
---
apiVersion: dra-steward.io/v1alpha1
kind: DeviceDrain
metadata: {name: sick, labels: {dra-steward.io/reaction: sick}}
spec: {devices: [{driver: gpu.example.com, pool: node-1, device: gpu-1}]}
`

// installRoles creates the roles of the chart, the configuration of a release, an empty history and
// the users.
func installRoles(t *testing.T) {
	t.Helper()
	const release = "dra-steward"
	c := must(kubernetes.NewForConfig(cluster.Config()))(t)
	must(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: release}}, metav1.CreateOptions{}))(t)
	values := map[string]any{"guard": map[string]any{"thresholds": map[string]any{"pods": 7}}}
	for _, object := range must(chart.Render(values, chart.Options{KubeVersion: cluster.Version()}))(t) {
		forPeople := object.GetLabels()["app.kubernetes.io/component"] == "rbac"
		if forPeople || object.GetKind() == "ConfigMap" && object.GetName() == release {
			apply(t, string(must(json.Marshal(object))(t)))
		}
	}
	shard := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dra-steward-controller-history-0"},
		BinaryData: map[string][]byte{"history.json.gz": must((&history.Store{}).Encode(0))(t)}}
	must(c.CoreV1().ConfigMaps(release).Create(t.Context(), shard, metav1.CreateOptions{}))(t)
	apply(t, people)
}
