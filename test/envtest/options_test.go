package envtest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

const auditMetadata = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
`

// TestOptions starts one control plane with everything that is not default.
func TestOptions(t *testing.T) {
	cluster := start(t, envtest.Options{
		Kubectl:           true,
		ControllerManager: true,
		FeatureGates:      map[string]bool{"DRADeviceTaints": true},
		RuntimeConfig:     map[string]bool{"resource.k8s.io/v1beta2": true},
		APIServerArgs:     map[string][]string{"max-requests-inflight": {"123"}},
		AuditPolicy:       auditMetadata,
	})
	client := clientOf(t, cluster)
	if _, err := client.ResourceV1beta2().ResourceClaims("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("RuntimeConfig: %v", err)
	}
	out, err := cluster.Kubectl(t.Context(), "get", "namespaces", "-o", "name").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "namespace/kube-system") {
		t.Errorf("Kubectl: %v, %s", err, out)
	}
	audit, err := os.ReadFile(cluster.AuditLog())
	if err != nil || !strings.Contains(string(audit), `"userAgent":"kubectl/`) {
		t.Errorf("AuditLog: %v, %d bytes", err, len(audit))
	}
	commands := strings.Join(processesOf(t, cluster.Dir()), "\n")
	if !strings.Contains(commands, "--max-requests-inflight=123") {
		t.Errorf("APIServerArgs: not in %s", commands)
	}
	if got := strings.Count(commands, "DRADeviceTaints=true"); got != 2 {
		t.Errorf("FeatureGates: at %d components, want 2", got)
	}
}

// TestRestart stops the controller-manager and starts it again.
func TestRestart(t *testing.T) {
	cluster := start(t, envtest.Options{ControllerManager: true})
	client := clientOf(t, cluster)
	serviceAccounts := func(namespace string) (int, error) {
		list, err := client.CoreV1().ServiceAccounts(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
	eventually(t, "the controller-manager works", func(context.Context) (bool, error) {
		n, err := serviceAccounts("default")
		return n > 0, err
	})
	if err := cluster.StopComponent(assets.ControllerManager); err != nil {
		t.Fatal(err)
	}
	if out, err := cluster.Kubectl(t.Context()).CombinedOutput(); err == nil {
		t.Errorf("kubectl runs without Options.Kubectl: %s", out)
	}
	if left := strings.Join(processesOf(t, cluster.Dir()), "\n"); strings.Contains(left, assets.ControllerManager+" --") {
		t.Errorf("still running: %s", left)
	}
	if err := client.CoreV1().ServiceAccounts("default").Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartComponent(t.Context(), assets.ControllerManager); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works again", func(context.Context) (bool, error) {
		n, err := serviceAccounts("default")
		return n > 0, err
	})
	if err := cluster.StartComponent(t.Context(), assets.Scheduler); err == nil {
		t.Error("a scheduler starts though Options did not ask for it")
	}
}
