package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestTaintCommands takes a device out and puts it back by name, on the API server.
func TestTaintCommands(t *testing.T) {
	_, c, _ := guarded(t, nil)
	hot := resourceapi.DeviceTaint{Key: "gpu.example.com/hot", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	for pool, devices := range map[string][]resourceapi.Device{
		"lane-1": {{Name: "a", Taints: []resourceapi.DeviceTaint{hot}}, {Name: "b"}}, "lane-2": {{Name: "b"}},
	} {
		create(t, c.ResourceV1().ResourceSlices(), slice(pool, devices...))
		t.Cleanup(func() {
			_ = c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), pool, metav1.DeleteOptions{})
		})
	}
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	rules := untyped.Resource(cluster.DeviceTaintRules())
	const b, key = driver + "/lane-1/b", "example.com/suspect"
	wantRun := func(code int, want string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		got := cli.Run(t.Context(), append(args, "--kubeconfig="+cluster.Kubeconfig()), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("%v: exit code %d, want %d and %q in:\n%s", args, got, code, want, out.String())
		}
		return out.String()
	}
	effect := func(name string) (effect, expires string) {
		t.Helper()
		rule, err := rules.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var typed resourceapi.DeviceTaintRule
		text, _ := rule.MarshalJSON()
		if err := json.Unmarshal(text, &typed); err != nil {
			t.Fatal(err)
		}
		return string(typed.Spec.Taint.Effect), typed.Annotations[v1alpha1.ExpiresAnnotation]
	}

	wantRun(cmdutil.ExitFailed, driver+"/lane-2/b", "taint", "b", key+":NoSchedule")
	created := wantRun(cmdutil.ExitClean, "created: "+b, "taint", b, key+":NoSchedule")
	name, _, _ := strings.Cut(strings.TrimPrefix(created[strings.Index(created, "devicetaintrule/"):], "devicetaintrule/"), " ")
	wantRun(cmdutil.ExitClean, "unchanged", "taint", "lane-1/b", key+":NoSchedule")
	wantRun(cmdutil.ExitClean, "until", "taint", b, key+":NoSchedule", "--for=2h")
	if _, expires := effect(name); expires == "" {
		t.Error("--for is not in the rule")
	}
	wantRun(cmdutil.ExitClean, "server dry run", "taint", b, key+":NoExecute", "--dry-run=server")
	if got, _ := effect(name); got != "NoSchedule" {
		t.Errorf("a dry run has changed the effect to %s", got)
	}
	wantRun(cmdutil.ExitClean, "changed", "taint", b, key+":NoExecute")
	if got, expires := effect(name); got != "NoExecute" || expires == "" {
		t.Errorf("without --for: effect %s, expires %q", got, expires)
	}
	wantRun(cmdutil.ExitClean, "(dry run)", "taint", b, key+":NoExecute", "--for=0", "--dry-run")
	wantRun(cmdutil.ExitClean, "changed", "taint", b, key+":NoExecute", "--for=0")
	if _, expires := effect(name); expires != "" {
		t.Errorf("with --for=0: expires %q", expires)
	}
	wantRun(cmdutil.ExitClean, "changed", "taint", b, key+":NoExecute", "--reason=replace the fan", "--ticket=OPS-1", "--for=2h")
	wantRun(cmdutil.ExitClean, "unchanged", "taint", b, key+":NoExecute")
	if listed := wantRun(cmdutil.ExitClean, "replace the fan", "taint", "--list"); !strings.Contains(listed, " admin ") || !strings.Contains(listed, "OPS-1") || !strings.Contains(listed, b) {
		t.Errorf("without the owner, the ticket or the device:\n%s", listed)
	}
	wantRun(cmdutil.ExitClean, "devicetaintrule.resource.k8s.io/"+name, "taint", "--list", "-o", "name")
	wantRun(cmdutil.ExitClean, "OPS-1", "taint", "--list", "-o", `jsonpath={.items[*].metadata.annotations.dra-steward\.io/ticket}`)
	wantRun(cmdutil.ExitFailed, "add --list", "taint", b, key+":NoExecute", "-o", "json")
	wantRun(cmdutil.ExitFailed, "--reason: ", "taint", b, key+":NoExecute", "--reason=two\nlines")
	wantRun(cmdutil.ExitClean, "affects no pods", "impact", name)
	wantRun(cmdutil.ExitClean, "", "impact", b, key+":NoExecute", "--output=json")
	wantRun(cmdutil.ExitFailed, "no device", "taint", driver+"/lane-9/z", key+":NoSchedule")
	wantRun(cmdutil.ExitClean, "deleted: "+b, "taint", b, key+"-")
	wantRun(cmdutil.ExitClean, "nothing to do", "untaint", b, key)
	wantRun(cmdutil.ExitFailed, "driver", "untaint", driver+"/lane-1/a", hot.Key)
	// Beside our own taint is that of the driver, which stays; a device that is not
	// published any more can be untainted all the same.
	wantRun(cmdutil.ExitClean, "created", "taint", driver+"/lane-1/a", hot.Key+":NoSchedule")
	wantRun(cmdutil.ExitClean, "still tainted", "untaint", driver+"/lane-1/a", hot.Key)
	if cluster.Minor() == "1.34" {
		wantRun(cmdutil.ExitFailed, `spec.taint.effect: Unsupported value: "None": supported values: "NoExecute", "NoSchedule": the effect None needs Kubernetes 1.35`,
			"taint", driver+"/lane-2/b", key+":None")
	}
	wantRun(cmdutil.ExitClean, "created", "taint", driver+"/lane-2/b", key+":"+preview())
	if err := c.ResourceV1().ResourceSlices().Delete(t.Context(), "lane-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantRun(cmdutil.ExitClean, "deleted: "+driver+"/lane-2/b", "untaint", "lane-2/b", key)
}

// TestTaintPreviewed: what taint writes after it has shown the impact is not refused for the
// lack of a preview, whatever the mode.
func TestTaintPreviewed(t *testing.T) {
	_, c, _ := guarded(t, map[string]any{"mode": "enforce"})
	create(t, c.ResourceV1().ResourceSlices(), slice("preview", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"}))
	t.Cleanup(func() {
		_ = c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), "preview", metav1.DeleteOptions{})
	})
	run := func(code int, want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		got := cli.Run(t.Context(), append(args, "--kubeconfig="+cluster.Kubeconfig()), cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if got != code || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "DRA-RULE-003") {
			t.Fatalf("%v: exit code %d, want %d and %q in:\n%s", args, got, code, want, out.String())
		}
	}
	const a, b, key = driver + "/preview/a", driver + "/preview/b", "example.com/broken"
	run(cmdutil.ExitClean, "(server dry run)", "taint", a, key+":NoExecute", "--dry-run=server")
	run(cmdutil.ExitClean, "created: "+a+" "+key+":NoExecute", "taint", a, key+":NoExecute")
	run(cmdutil.ExitClean, "unchanged", "taint", a, key+":NoExecute")
	run(cmdutil.ExitClean, "created", "taint", b, key+":NoSchedule")
	run(cmdutil.ExitClean, "changed: "+b+" "+key+":NoExecute", "taint", b, key+":NoExecute")
	run(cmdutil.ExitClean, "deleted", "taint", a, b, key+"-")
}
