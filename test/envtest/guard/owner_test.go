package guard_test

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestOwnerOfRules: in the strictest mode, a person who writes a rule without an owner and a
// reason is warned once, with a command that works; a ServiceAccount is not, and neither is a
// write that changes no specification.
func TestOwnerOfRules(t *testing.T) {
	_, c, _ := guarded(t, map[string]any{"mode": "enforce"})
	create(t, c.ResourceV1().ResourceSlices(), slice("owned", resourceapi.Device{Name: "a"}))
	t.Cleanup(func() {
		_ = c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), "owned", metav1.DeleteOptions{})
	})
	rules, seen := rulesAs(t, cluster.Config())
	version := cluster.DeviceTaintRules()
	if _, err := rules.Create(t.Context(), ruleOf(version, "no-owner", driver+"/owned/a", "NoSchedule", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rules.Delete(context.WithoutCancel(t.Context()), "no-owner", metav1.DeleteOptions{})
	})
	warned := seen.take()
	remedy := regexp.MustCompile(`with "kubectl (annotate devicetaintrule no-owner dra-steward.io/owner=TEAM dra-steward.io/reason=TEXT)"`).FindStringSubmatch(warned)
	if remedy == nil || strings.Count(warned, "DRA-RULE-007") != 1 || !regexp.MustCompile(`(?m)^metadata\.annotations\[dra-steward\.io/owner\]: is missing`).MatchString(warned) {
		t.Fatalf("warnings %q", warned)
	}
	wantNone := func(what string, err error) {
		t.Helper()
		if got := seen.take(); err != nil || strings.Contains(got, "DRA-RULE-007") {
			t.Errorf("%s: %v, warnings %q", what, err, got)
		}
	}
	patch := func(what, text string) {
		t.Helper()
		_, err := rules.Patch(t.Context(), "no-owner", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		wantNone(what, err)
	}
	patch("a label", `{"metadata":{"labels":{"a":"b"}}}`)
	succeeds(t, cluster.Kubectl(t.Context(), strings.Fields(remedy[1])...))
	patch("an update with both", `{"spec":{"taint":{"key":"example.com/other"}}}`)

	account, err := cluster.User("system:serviceaccount:gpu:driver", "system:serviceaccounts", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	rules, seen = rulesAs(t, account)
	_, err = rules.Create(t.Context(), ruleOf(version, "of-a-driver", driver+"/owned/a", "NoSchedule", ""), notStored)
	wantNone("a ServiceAccount", err)
}

// TestOwnerOfTaint: the command is warned without --reason and not with it; a site can refuse
// rules that lack one.
func TestOwnerOfTaint(t *testing.T) {
	_, c, _ := guarded(t, map[string]any{"policies": map[string]any{"modes": map[string]any{"DRA-RULE-007": "deny"}, "parameters": map[string]any{"DRA-RULE-007": map[string]any{"expiry": true}}}})
	create(t, c.ResourceV1().ResourceSlices(), slice("owned-2", resourceapi.Device{Name: "a"}))
	t.Cleanup(func() {
		_ = c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), "owned-2", metav1.DeleteOptions{})
	})
	run := func(code int, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		got := cli.Run(t.Context(), append(args, "--kubeconfig="+cluster.Kubeconfig()), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if got != code || !strings.Contains(out.String(), want) || code == cmdutil.ExitClean && strings.Contains(out.String(), "DRA-RULE-007") {
			t.Errorf("%v: exit code %d, want %d and %q in:\n%s", args, got, code, want, out.String())
		}
	}
	const a, taint = driver + "/owned-2/a", "example.com/suspect:NoSchedule"
	run(cmdutil.ExitFailed, "with --reason and --for of", "taint", a, taint)
	run(cmdutil.ExitFailed, "with --for of", "taint", a, taint, "--reason=fan")
	run(cmdutil.ExitClean, "created", "taint", a, taint, "--reason=fan", "--for=2h")
	run(cmdutil.ExitClean, "deleted", "taint", a, "example.com/suspect-")
	rules, seen := rulesAs(t, cluster.Config())
	_, err := rules.Create(t.Context(), ruleOf(cluster.DeviceTaintRules(), "no-owner-2", a, "NoSchedule", ""), notStored)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "DRA-RULE-007") {
		t.Errorf("%v, warnings %q", err, seen.take())
	}
}

// rulesAs writes DeviceTaintRules with a configuration, and collects its warnings.
func rulesAs(t *testing.T, config *rest.Config) (dynamic.ResourceInterface, *warnings) {
	t.Helper()
	seen, config := &warnings{}, rest.CopyConfig(config)
	config.WarningHandler = seen
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return untyped.Resource(cluster.DeviceTaintRules()), seen
}

func succeeds(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", command.Args, err, out)
	}
}
