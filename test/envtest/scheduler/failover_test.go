package scheduler_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// Of two replicas one schedules, the one with the Lease of kube-scheduler. After it is killed, the
// other one binds the next pod, to a device that is free, by the patches.
func TestFailover(t *testing.T) {
	w := start(t, onlyPatched, "node-0") // a scheduler without leader election, which is stopped
	if err := w.StopComponent(assets.Scheduler); err != nil {
		t.Fatal(err)
	}
	w.installType(t)
	w.grant(t)
	w.publish(t, "node-0", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"})
	w.patch(t, "rack", `{attributes: {dc.example.com/rack: {string: r12}}}`)
	const rack = `device.attributes["dc.example.com"].?rack.orValue("") == "r12"`

	first := w.replica(t)
	eventually(t, "the first replica leads", func() bool { return w.holder(t) != "" })
	leader := w.holder(t)
	second := w.replica(t)
	eventually(t, "the second replica waits for the Lease", func() bool { return strings.Contains(second.text(t), "Attempting to acquire leader lease") })
	w.ask(t, "before", "", rack)
	had := w.isBound(t, "before")
	if holder := w.holder(t); holder != leader {
		t.Fatalf("%s leads, although %s is alive", holder, leader)
	}

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	begin := time.Now()
	w.ask(t, "after", "", rack)
	got := w.isBound(t, "after")
	t.Logf("the next pod was bound %s after the leader was killed", time.Since(begin).Round(100*time.Millisecond))
	if got == had {
		t.Errorf("both pods have %s", got)
	}
	if holder := w.holder(t); holder == leader || holder == "" {
		t.Errorf("%q leads after %q was killed", holder, leader)
	}
	w.ask(t, "none", "", rack)
	w.isPending(t, "none")
	if w.saidYet(t, "AnotherScheduler", "") {
		t.Error("the second replica takes the binding of the first for that of another scheduler")
	}
}

// A replica is a scheduler with leader election.
type replica struct {
	*exec.Cmd
	log string
}

func (r *replica) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// replica starts one, with more flags. It ends with the test.
func (w *world) replica(t *testing.T, flags ...string) *replica {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := w.UserKubeconfig("system:kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"clientConnection: {kubeconfig: " + kubeconfig + "}\nleaderElection: {leaderElect: true, leaseDuration: 20s, renewDeadline: 15s, retryPeriod: 1s}\n" + onlyPatched
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replica{log: filepath.Join(dir, "log")}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	r.Cmd = exec.CommandContext(t.Context(), file, append(flags, "--config="+config, "--bind-address=127.0.0.1", "--secure-port="+freePort(t), "-v=2")...)
	r.Stdout, r.Stderr = log, log
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Process.Kill() // one of them was killed before
		_ = r.Wait()
		if text := r.text(t); t.Failed() {
			t.Logf("the end of the log of a replica:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return r
}

// holder is the replica that leads; empty while there is none.
func (w *world) holder(t *testing.T) string {
	t.Helper()
	lease, err := w.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
