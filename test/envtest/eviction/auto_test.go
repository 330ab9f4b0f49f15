package eviction_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// longVariable is set by make test-long: these tests take minutes, for that is how long
// the mode auto looks before it acts.
const longVariable = "DRA_STEWARD_LONG"

func long(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("takes minutes; make test-long runs it")
	}
}

var auto = map[string]any{"mode": "auto"}

// taintSlice gives all devices a NoExecute taint of their driver.
func (w *world) taintSlice(t *testing.T) {
	t.Helper()
	slice := must(w.ResourceV1().ResourceSlices().Get(t.Context(), "gpus", metav1.GetOptions{}))(t)
	// One stays good: a driver that taints all that it has is not followed.
	for i := range slice.Spec.Devices[1:] {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	}
	must(w.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{}))(t)
}

// expectBy fails unless each pod was deleted once, by us or not.
func (w *world) expectBy(t *testing.T, byUs bool, names ...string) {
	t.Helper()
	by := evictionsOf(t, w.Cluster, names)
	for _, name := range names {
		if len(by[name]) != 1 || (by[name][0] == ours) != byUs {
			t.Errorf("%s was deleted by %q; by us: %t is right", name, by[name], byUs)
		}
	}
}

// later waits for the second of the start to be over: what is tainted in it is older
// than the controller.
func later(t *testing.T) {
	t.Helper()
	begin := time.Now()
	eventually(t, "the second of the start is over", func(context.Context) (bool, error) { return time.Since(begin) > 2*time.Second, nil })
}

// pass lets time pass in which nothing may happen.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// TestAutoDefaults is Kubernetes as it comes: 1.37 evicts for slices and rules, 1.36 for
// slices alone and has no rules. In both we evict what it misses and nothing else.
func TestAutoDefaults(t *testing.T) {
	long(t)
	for _, minor := range []string{"1.36", "1.37"} {
		t.Run(minor, func(t *testing.T) {
			o := options(t, minor, "node-0")
			o.DeviceTaintRules = false
			w := start(t, o)
			offer(t, w, 8)
			plain, missed := pods(t, w, "plain", 2, false), pods(t, w, "missed", 2, true)
			defer run(t, w.Cluster, auto)()
			later(t)
			w.taintSlice(t)
			gone(t, w, append(plain, missed...))
			w.expectBy(t, false, plain...)
			w.expectBy(t, true, missed...)
			if minor != "1.37" {
				return
			}
			// The restarted controller-manager: what is due meanwhile is its own.
			more := pods(t, w, "more", 1, false)
			if err := w.StopComponent(assets.ControllerManager); err != nil {
				t.Fatal(err)
			}
			w.taint(t, "rule", resourceapi.DeviceTaintEffectNoExecute, "pods<=100")
			pass(t, time.Minute)
			if got := evictions(t, w.Cluster)[more[0]]; len(got) != 0 {
				t.Errorf("a minute without the controller-manager, and %s is deleted by %q", more[0], got)
			}
			if err := w.StartComponent(t.Context(), assets.ControllerManager); err != nil {
				t.Fatal(err)
			}
			gone(t, w, more)
			w.expectBy(t, false, more...)
		})
	}
}

// TestAutoRulesWithoutGate is 1.36 with the API of rules switched on and the gate off:
// the controller-manager evicts for slices, and we for rules, after two minutes.
func TestAutoRulesWithoutGate(t *testing.T) {
	long(t)
	o := options(t, "1.36", "node-0")
	o.FeatureGates = map[string]bool{"DRADeviceTaintRules": false}
	w := start(t, o)
	offer(t, w, 8)
	bySlice, byRule := pods(t, w, "slice", 2, false), []string(nil)
	defer run(t, w.Cluster, auto)()
	later(t)
	w.taintSlice(t)
	gone(t, w, bySlice)
	w.expectBy(t, false, bySlice...)
	w.heal(t)
	byRule = append(pods(t, w, "rule", 2, false), pods(t, w, "extended", 1, true)...)
	w.taint(t, "rule", resourceapi.DeviceTaintEffectNoExecute, "pods<=100")
	slow(t, "the pods of the rule are gone", func(ctx context.Context) (bool, error) {
		return len(left(ctx, t, w, byRule)) == 0, nil
	})
	w.expectBy(t, true, byRule...)
	w.condition(t, "rule", resourceapi.DeviceTaintConditionEvictionInProgress, "False Completed 3 pods evicted.")
}

// TestAutoUpgrade runs the controller-manager of 1.36 on the API server of 1.37, as in
// the middle of an upgrade, and then that of 1.37. No pod is evicted twice or forgotten.
func TestAutoUpgrade(t *testing.T) {
	long(t)
	w := start(t, options(t, "1.37", "node-0"))
	offer(t, w, 8)
	before := append(pods(t, w, "before", 2, false), pods(t, w, "before-extended", 1, true)...)
	if err := w.StopComponent(assets.ControllerManager); err != nil {
		t.Fatal(err)
	}
	stop := w.oldControllerManager(t)
	defer run(t, w.Cluster, auto)()
	later(t)
	w.taint(t, "before", resourceapi.DeviceTaintEffectNoExecute, "pods<=100")
	slow(t, "what 1.36 does not evict is gone", func(ctx context.Context) (bool, error) {
		return len(left(ctx, t, w, before)) == 0, nil
	})
	w.expectBy(t, true, before...)
	if err := w.rules.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	after, missed := pods(t, w, "after", 2, false), pods(t, w, "after-extended", 1, true)
	stop()
	if err := w.StartComponent(t.Context(), assets.ControllerManager); err != nil {
		t.Fatal(err)
	}
	// Its first sign comes with the next probe at the latest.
	pass(t, 80*time.Second)
	w.taint(t, "after", resourceapi.DeviceTaintEffectNoExecute, "pods<=100")
	gone(t, w, append(after, missed...))
	w.expectBy(t, false, after...)
	w.expectBy(t, true, missed...)
}

// heal takes the taints off.
func (w *world) heal(t *testing.T) {
	t.Helper()
	slice := must(w.ResourceV1().ResourceSlices().Get(t.Context(), "gpus", metav1.GetOptions{}))(t)
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = nil
	}
	must(w.ResourceV1().ResourceSlices().Update(t.Context(), slice, metav1.UpdateOptions{}))(t)
}

// left are those of the pods that are there.
func left(ctx context.Context, t *testing.T, w *world, names []string) (there []string) {
	t.Helper()
	list, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return names
	}
	for i := range list.Items {
		if slices.Contains(names, list.Items[i].Name) {
			there = append(there, list.Items[i].Name)
		}
	}
	return there
}

// slow is eventually for what takes minutes.
func slow(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	for range 10 {
		if ok, err := check(t.Context()); ok || err != nil {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return
		}
		pass(t, 30*time.Second)
	}
	t.Fatalf("%s: not after five minutes", what)
}

// oldControllerManager runs that of 1.36 and returns how to stop it.
func (w *world) oldControllerManager(t *testing.T) (stop func()) {
	t.Helper()
	set := must(assets.Get(t.Context(), assets.Options{Kubernetes: "1.36", Binaries: []string{assets.ControllerManager}, Output: t.Output()}))(t)
	kubeconfig := must(w.UserKubeconfig("system:" + assets.ControllerManager))(t)
	keys := must(filepath.Glob(filepath.Join(w.Dir(), "apiserver-*", "sa-signer.key")))(t)
	if len(keys) != 1 {
		t.Fatalf("keys of service accounts: %q", keys)
	}
	c := exec.Command(set.Path(assets.ControllerManager), "--kubeconfig="+kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1",
		"--secure-port=0", "--use-service-account-credentials", "--service-account-private-key-file="+keys[0], "--cert-dir="+t.TempDir(),
		"--root-ca-file="+filepath.Join(w.Dir(), "ca.crt"))
	log := &proc.Log{}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of the old controller-manager:\n%s", log.String()[max(0, len(log.String())-4000):])
		}
	})
	eventually(t, "the controller-manager of 1.36 works", func(context.Context) (bool, error) {
		return strings.Contains(log.String(), `device-taint-eviction-controller`), nil
	})
	return func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = c.Wait() // that it was killed
	}
}
