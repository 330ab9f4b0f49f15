package client_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cli/examples"
)

var update = flag.Bool("update", false, "write the table of docs/cli.md")

// A habit is a command of kubectl and the one of ours that takes the same flags.
type habit struct{ kubectl, ours string }

func TestClient(t *testing.T) {
	publish(t)
	t.Run("habits", testHabits)
	t.Run("plugin", testPlugin)
	t.Run("completion", testCompletion)
	t.Run("targets", testTargets)
	t.Run("forbidden", testForbidden)
	t.Run("warnings", testWarnings)
	installTypes(t)
	t.Run("console", testConsole)
	t.Run("console of a tenant", testConsoleOfTenant)
	t.Run("names", testNames)
	t.Run("watch", testWatch)
	t.Run("roles", testRoles)
}

// habits are the rows of docs/cli.md.
func habits() []habit {
	return []habit{
		{"get nodes --context envtest", "devices --context envtest"},
		{"get nodes --cluster envtest --user envtest", "devices --cluster envtest --user envtest"},
		{"get nodes --as jane", "devices --as jane"},
		{"get nodes --request-timeout 30s", "devices --request-timeout 30s"},
		{"get nodes --server https://127.0.0.1:1", "devices --server https://127.0.0.1:1"},
		{"get nodes -l rack=r7", "devices -l rack=r7"},
		{"get nodes -o wide", "devices -o wide"},
		{"get nodes -o json", "devices -o json"},
		{"get nodes -o yaml", "devices -o yaml"},
		{"get nodes -o name", "devices -o name"},
		{"get nodes -o jsonpath={..name}", "devices -o jsonpath={..device}"},
		{"get nodes -o custom-columns=NAME:.metadata.name", "devices -o custom-columns=NAME:.device"},
		{"get nodes -o custom-columns=NAME", "devices -o custom-columns=NAME"},
		{"get nodes -A", "devices -A"},
		{"get pods -A --as tenant", "devices -A --as tenant"},
		{"get nodes --no-headers", "devices --no-headers"},
		{"get node node-1", "devices node node-1"},
		{"get node/node-9", "devices node/node-9"},
		{"get pod/train-0 -n team-a", "devices pod/train-0 -n team-a"},
		{"get resourceclaims -A", "audit -A"},
		{"get resourceclaims -A --no-headers", "capacity --no-headers"},
		{"get resourceclaims -A -o name", "capacity --by node -o name"},
		{"get resourceclaim train -n team-a -o name", "why claim/train -n team-a -o name"},
		{"get devicetaintrules -o wide", "taint --list -o wide"},
		{"get devicetaintrules -o name", "taint --list -o name"},
		{"get nodes -o nonsense", "devices -o nonsense"},
		{"taint node node-1 example.com/a:NoSchedule --dry-run=client", "taint node node-1 example.com/a:NoSchedule --dry-run=client"},
		{"taint node node-1 example.com/a:NoSchedule --dry-run=server", "taint node node-1 example.com/a:NoSchedule --dry-run=server"},
		{"taint node node-1 example.com/a:NoSchedule", "taint node node-1 example.com/a:NoSchedule"},
		{"taint node -l rack=r7 example.com/b:NoSchedule", "taint node -l rack=r7 example.com/b:NoSchedule"},
		{"taint node node-1 example.com/a- example.com/b-", "untaint node node-1 example.com/a"},
		{"version --client -o json", "version -o json"},
		{"options", "options"},
		{"completion bash", "completion bash"},
	}
}

// testHabits: each command of ours takes the flags of its kubectl command, and succeeds or
// fails as that does.
func testHabits(t *testing.T) {
	var table strings.Builder
	table.WriteString("| kubectl | dra-steward | exit codes |\n| --- | --- | --- |\n")
	for _, h := range habits() {
		var exit *exec.ExitError
		theirs := 0
		text, err := cluster.Kubectl(t.Context(), strings.Fields(h.kubectl)...).CombinedOutput()
		if errors.As(err, &exit) {
			theirs = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(h.ours)
		if !slices.Contains([]string{"version", "options", "completion"}, args[0]) {
			args = append(args, "--kubeconfig="+cluster.Kubeconfig())
		}
		ours, out, stderr := run(t, args...)
		if (theirs == 0) != (ours == cmdutil.ExitClean) {
			t.Errorf("kubectl %s: %d\n%s\ndra-steward %s: %d\n%s%s", h.kubectl, theirs, text, h.ours, ours, out, stderr)
		}
		codes := fmt.Sprint(ours)
		if theirs != ours {
			codes = fmt.Sprintf("%d, %d", theirs, ours)
		}
		fmt.Fprintf(&table, "| `kubectl %s` | `dra-steward %s` | %s |\n", h.kubectl, h.ours, codes)
	}
	page := filepath.Join("..", "..", "..", "docs", "cli.md")
	text := must(os.ReadFile(page))(t)
	rows := regexp.MustCompile(`(?s)\| kubectl \| .*?\n\n`)
	if want := rows.ReplaceAllLiteral(text, []byte(table.String()+"\n")); !bytes.Equal(text, want) {
		if !*update {
			t.Fatalf("the table of docs/cli.md is not current: run this test with -update; it is\n%s", &table)
		}
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// testNames: kubectl finds what -o name prints. Devices are no objects of Kubernetes.
func testNames(t *testing.T) {
	removeRules(t)
	run(t, "taint", driver+"/node-1/gpu-0", "example.com/names:"+preview(), "--kubeconfig="+cluster.Kubeconfig())
	defer removeRules(t)
	run(t, "drain", driver+"/node-1/gpu-0", "--name=names", "--kubeconfig="+cluster.Kubeconfig())
	defer run(t, "drain", "--cancel", "names", "--kubeconfig="+cluster.Kubeconfig())
	run(t, "roll", driver, "--driver-selector=gpu/app=driver", "--name=names", "--kubeconfig="+cluster.Kubeconfig())
	defer run(t, "roll", "--delete", "names", "--kubeconfig="+cluster.Kubeconfig())
	for _, args := range []string{
		"capacity --by class", "capacity --by namespace", "capacity --by node", "drain --list", "impact pod/train-0 example.com/a:NoExecute", "roll --list",
		"taint --list", "whatif drain pod/train-0", "why pod/train-0",
	} {
		_, out, stderr := run(t, append(strings.Fields(args), "-n="+namespace, "-o=name", "--kubeconfig="+cluster.Kubeconfig())...)
		names := strings.Fields(out)
		found, err := cluster.Kubectl(t.Context(), append([]string{"get", "-n", namespace, "-o", "name"}, names...)...).Output() // without its warnings of deprecated versions
		if err != nil || len(names) == 0 || string(found) != out {
			t.Errorf("%s: kubectl get: %v\n%s\nwant\n%s%s", args, err, found, out, stderr)
		}
	}
}

// pluginClaim waits for the device that testPlugin taints.
const pluginClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: plugin, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
`

// testPlugin calls the program as "kubectl dra-steward", and lets kubectl complete it.
func testPlugin(t *testing.T) {
	dir, self := t.TempDir(), must(os.Executable())(t)
	for _, name := range []string{"kubectl-dra_steward", "kubectl_complete-dra_steward"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	removeRules(t)
	apply(t, pluginClaim)
	defer remove(t, "resourceclaim/plugin", "-n", "default")
	for _, tt := range []struct{ args, want string }{
		{"dra-steward devices -o name", driver + "/node-1/gpu-0\n"},
		{"dra-steward devices --help", "kubectl dra-steward devices node/node-1\n"},
		{"dra-steward nothing", "see 'kubectl dra-steward --help'"},
		{"__complete dra-steward devi", "devices\t"},
		{"__complete dra-steward devices -o y", "yaml\n"},
		{"dra-steward drain --pause a/b/c", `"kubectl dra-steward drain --list" shows them`},
		{"dra-steward taint --list", "there are no DeviceTaintRules; kubectl dra-steward devices shows"},
		{"dra-steward taint " + driver + "/node-1/gpu-0 example.com/plugin:NoSchedule", "created"},
		{"dra-steward why claim/plugin -n default", ": kubectl dra-steward untaint " + driver + "/node-1/gpu-0 example.com/plugin\n"},
		{"dra-steward why claim/plugin -n default -o jsonpath={.cause.command}", "kubectl dra-steward untaint " + driver + "/node-1/gpu-0 example.com/plugin"},
		{"dra-steward untaint " + driver + "/node-1/gpu-0 example.com/plugin", "deleted"},
	} {
		// kubectl gives a plugin only the arguments after its name.
		c := cluster.Kubectl(t.Context())
		c.Args = append(c.Args[:1:1], strings.Fields(tt.args)...)
		c.Env = append(c.Env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig())
		if out, _ := c.CombinedOutput(); !strings.Contains(string(out), tt.want) {
			t.Errorf("kubectl %s: no %q in\n%s", tt.args, tt.want, out)
		}
	}
}

// testForbidden: a user without permissions learns in a line, and at once, which one is
// missing; no command logs. The commands are those of the examples in their help.
func testForbidden(t *testing.T) {
	kubeconfig := must(cluster.UserKubeconfig("without-rights"))(t)
	file := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(file, []byte(pluginClaim), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	of := examples.Of(cli.Command(cmdutil.Streams{}), func(c *cobra.Command) bool { return c.Flags().Lookup("context") != nil })
	for _, path := range slices.Sorted(maps.Keys(of)) {
		for _, args := range of[path] {
			if f := slices.Index(args, "-f"); f >= 0 {
				if args[f+1] == "class.yaml" || args[f+1] == "patch.yaml" { // whose commands read only such files
					continue
				}
				args[f+1] = file
			}
			switch {
			case slices.Contains(args, "--config"), path == "console" && !slices.Contains(args, "--export"): // a file of the site, and a server
				continue
			case path == "uninstall":
				args = append(args, "--yes")
			}
			holdForbidden(t, append(args, "--kubeconfig="+kubeconfig))
		}
	}
}

// holdForbidden runs a command as a user without permissions.
func holdForbidden(t *testing.T, args []string) {
	t.Helper()
	begin := time.Now()
	code, out, stderr := run(t, args...)
	took := time.Since(begin)
	for range 3 { // on a busy machine the best of some counts
		if took <= within {
			break
		}
		begin = time.Now()
		run(t, args...)
		took = time.Since(begin)
	}
	if took > within {
		t.Errorf("%q took %v", args, took)
	}
	last := strings.TrimSpace(stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:])
	if code != cmdutil.ExitFailed || !strings.HasPrefix(last, "dra-steward: ") || !regexp.MustCompile(`forbidden|not allowed to`).MatchString(last) {
		t.Errorf("%q: exit code %d\n%s%s", args, code, out, stderr)
	}
	if regexp.MustCompile(`(?m)^[IWEF]\d{4} `).MatchString(stderr) {
		t.Errorf("%q logs:\n%s", args, stderr)
	}
}

// testWarnings: a warning of the API server is a line, once.
func testWarnings(t *testing.T) {
	policy := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: warn-rules}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [resource.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [devicetaintrules]}]}
  validations: [{expression: "false", message: "think twice"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: warn-rules}
spec: {policyName: warn-rules, validationActions: [Warn]}
`
	apply := cluster.Kubectl(t.Context(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(policy)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	defer func() {
		_ = cluster.Kubectl(t.Context(), "delete", "validatingadmissionpolicybinding/warn-rules", "validatingadmissionpolicy/warn-rules").Run()
	}()
	for deadline := time.Now().Add(30 * time.Second); ; { // until the policy is in force
		code, out, stderr := run(t, "taint", driver+"/node-1/gpu-0", driver+"/node-1/gpu-1", "example.com/warned:"+preview(), "--kubeconfig="+cluster.Kubeconfig())
		if n := strings.Count(stderr, "think twice"); n == 1 && strings.HasPrefix(stderr, "Warning: ") && code == cmdutil.ExitClean {
			break
		} else if n > 1 || code != cmdutil.ExitClean || time.Now().After(deadline) {
			t.Fatalf("exit code %d\n%s%s", code, out, stderr)
		}
		run(t, "untaint", driver+"/node-1/gpu-0", driver+"/node-1/gpu-1", "example.com/warned", "--kubeconfig="+cluster.Kubeconfig())
	}
}

// testCompletion completes names of the cluster and of the kubeconfig.
func testCompletion(t *testing.T) {
	run(t, "taint", driver+"/node-1/gpu-0", "example.com/complete:"+preview(), "--kubeconfig="+cluster.Kubeconfig())
	_, rules, _ := run(t, "taint", "--list", "-o", "name", "--kubeconfig="+cluster.Kubeconfig())
	defer run(t, "untaint", driver+"/node-1/gpu-0", "example.com/complete", "--kubeconfig="+cluster.Kubeconfig())
	rule, _, _ := strings.Cut(strings.TrimPrefix(rules, "devicetaintrule.resource.k8s.io/"), "\n")
	for typed, want := range map[string]string{
		"devices node/":                           "node/node-1\n",
		"taint " + driver + "/node-1/":            driver + "/node-1/gpu-1\n",
		"impact driver/":                          "driver/" + driver + "\n",
		"devices -n " + namespace + " claim/":     "claim/train\n",
		"drain -n " + namespace + " pod/":         "pod/train-0\n",
		"devices --namespace team":                namespace + "\n",
		"why --context ":                          "envtest\n",
		"why -n " + namespace + " ":               "claim/train\n",
		"why -n " + namespace + " po":             "pod/train-0\n",
		"why -n " + namespace + " pod ":           "train-0\n",
		"devices --node ":                         "node-1\n",
		"devices -n " + namespace + " --held-by ": "pod/train-0\n",
		"drain --driver ":                         driver + "\n",
		"impact ":                                 rule + "\n",
		"capacity --class ":                       "gpu\n",
		"explain taint-rule":                      "taint-rule-everything\t",
		"explain DRA-TOL":                         "DRA-TOL-001\t",
		"policy explain DRA-":                     "DRA-RULE-001\t",
	} {
		args := append([]string{"__complete"}, strings.Split(typed, " ")...)
		if !strings.Contains(typed, "explain") { // which needs no cluster
			args = slices.Insert(args, 2, "--kubeconfig="+cluster.Kubeconfig())
		}
		if _, out, stderr := run(t, args...); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s%s", typed, want, out, stderr)
		}
	}
}

// testTargets runs the commands that take what devices belong to, and the small errors.
func testTargets(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"drain pod/train-0 -n team-a --dry-run --evict-pods-without-controller": {cmdutil.ExitClean, "cordon " + driver + "/node-1/gpu-1\nevict 1."},
		"drain claim train -n team-a --dry-run --evict-pods-without-controller": {cmdutil.ExitClean, "cordon " + driver + "/node-1/gpu-1\n"},
		"drain node/node-1 --dry-run --evict-pods-without-controller":           {cmdutil.ExitClean, "cordon " + driver + "/node-1/gpu-0\ncordon " + driver + "/node-1/gpu-1\n"},
		"drain -l rack=r7 --dry-run --evict-pods-without-controller":            {cmdutil.ExitClean, "cordon " + driver + "/node-1/gpu-1\n"},
		"impact pod train-0 example.com/broken -n team-a":                       {cmdutil.ExitClean, "affects 1 allocated device and 1 claim, 1 pod"},
		"devices --held-by pod/train-0 -n team-a -o name":                       {cmdutil.ExitClean, driver + "/node-1/gpu-1\n"},
		"devices --node node-1 --free -o name":                                  {cmdutil.ExitClean, driver + "/node-1/gpu-0\n"},
		"audit -n typo":                                                         {cmdutil.ExitFailed, "--namespace typo: the cluster has no such namespace"},
		"drain node-1 --dry-run":                                                {cmdutil.ExitFailed, `no device, pool or driver "node-1": for the devices of the node, use node/node-1`},
		"drain rack=r7 --dry-run":                                               {cmdutil.ExitFailed, "for the labels of nodes, use -l 'rack=r7'"},
		"devices -l rack=r8":                                                    {cmdutil.ExitFailed, "no node has the labels rack=r8"},
	} {
		code, out, stderr := run(t, append(strings.Fields(args), "--kubeconfig="+cluster.Kubeconfig())...)
		if code != want.code || !strings.Contains(out+stderr, want.text) {
			t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", args, code, want.code, want.text, out, stderr)
		}
	}
}
