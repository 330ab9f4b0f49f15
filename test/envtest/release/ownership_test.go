package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/tools/doctest"
)

// documented is the namespace of the commands of the page.
const documented = "dra-steward"

// fromPage runs the kubectl commands of the block of docs/operations.md that has a text.
func fromPage(t *testing.T, text string) {
	t.Helper()
	page, err := doctest.Read("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range page.Blocks {
		if block.Language != "sh" || !strings.Contains(block.Text, text) {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block.Text, "\\\n", " ")) {
			if !strings.HasPrefix(line, "kubectl ") {
				continue
			}
			shell := exec.CommandContext(t.Context(), "sh", "-c", line)
			kubectl := cluster.Kubectl(t.Context()).Path
			shell.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			t.Logf("%s%s", line, out)
			ran++
		}
	}
	if ran == 0 {
		t.Fatalf("docs/operations.md has no command of kubectl with %q", text)
	}
}

// TestOwnership installs into another namespace over the types that a release has left: helm
// refuses, says why, and installs after the transfer that the page describes, with all
// objects. Types that were applied with kubectl are transferred in the same way, and
// --take-ownership replaces the transfer.
func TestOwnership(t *testing.T) {
	first := newHelm(t, "first")
	first.runHooks()
	first.must(first.install(current(t), with(nil)))
	kept := first.storePatches()
	first.must(first.uninstall())
	first.wantPatches(kept)

	h := newHelm(t, documented)
	h.runHooks()
	refused := func(why string) {
		t.Helper()
		_, err := h.install(current(t), with(nil))
		if err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %q", err, why)
		}
	}
	refused(`must equal "dra-steward": current value is "first"`)
	fromPage(t, "kubectl annotate crd")
	h.must(h.install(current(t), with(nil)))
	h.wantPatches(kept)
	h.must(h.uninstall())
	h.wantPatches(kept)

	// as kubectl apply makes them
	kubectl := cluster.Kubectl(t.Context(), "annotate", "crd", "devicedrains.dra-steward.io", "devicereactions.dra-steward.io", "devicerolls.dra-steward.io", "resourceslicepatches.dra-steward.io",
		"meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
	h.must(kubectl.CombinedOutput())
	kubectl = cluster.Kubectl(t.Context(), "label", "crd", "devicedrains.dra-steward.io", "devicereactions.dra-steward.io", "devicerolls.dra-steward.io", "resourceslicepatches.dra-steward.io", "app.kubernetes.io/managed-by-")
	h.must(kubectl.CombinedOutput())
	refused("missing key")
	take := action.NewInstall(h.config)
	take.ReleaseName, take.Namespace, take.Timeout, take.TakeOwnership = name, h.namespace, time.Minute, true
	h.must(take.RunWithContext(t.Context(), current(t), with(values{"crds": values{"keep": false}})))
	h.wantPatches(kept)
	h.must(h.uninstall())
	h.wantNothingLeft()
}

// TestUninstallJobCannotRun uninstalls where the Job has no node: helm names the Job and
// deletes nothing; the commands of the page remove everything.
func TestUninstallJobCannotRun(t *testing.T) {
	h := newHelm(t, documented)
	installed, err := h.install(current(t), with(values{"crds": values{"keep": false}, "guard": values{"enabled": false}, "uninstall": values{"activeDeadlineSeconds": 3}}))
	h.must(nil, err)
	uninstall := action.NewUninstall(h.config)
	uninstall.Timeout = time.Second
	if _, err := uninstall.Run(name); err == nil || !strings.Contains(err.Error(), "timed out waiting for the condition") {
		t.Errorf("a short timeout: got %v", err)
	}
	if _, err := h.uninstall(); err == nil || !strings.Contains(err.Error(), "job dra-steward-uninstall failed: DeadlineExceeded") {
		t.Errorf("no node: got %v", err)
	}
	h.wantAsRendered(installed.Manifest)
	fromPage(t, "kubectl describe job")

	h.leave()
	var out strings.Builder
	code := cli.Run(t.Context(), []string{"uninstall", "--namespace", documented, "--yes", "--kubeconfig", cluster.Kubeconfig()}, cmdutil.Streams{Out: &out, Err: &out})
	if code != cmdutil.ExitClean || !strings.Contains(out.String(), "to delete it: kubectl delete devicetaintrule drain-firmware-0") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
	without := action.NewUninstall(h.config)
	without.DisableHooks, without.Timeout = true, time.Minute
	h.must(without.Run(name))
	fromPage(t, "kubectl delete job")
	h.wantTypesGone()
	h.wantRule("drain-firmware-0", true)
	h.wantNothingLeft()
}
