package drain_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// detectorTags leave out what the test does not use: the log of the kernel, statistics and Stackdriver.
const detectorTags = "disable_system_log_monitor,disable_system_stats_monitor,disable_stackdriver_exporter"

// TestLongNodeProblemDetector: node-problem-detector itself sets the condition of the recipe, from the
// exit code and the output of a plugin. The device that the message is about is drained, and no other.
// When the plugin finds no problem any more, the device is healthy.
func TestLongNodeProblemDetector(t *testing.T) {
	s := newSiteAlone(t, "detector", 4) // TestLongDrain kills the controller
	s.identify(0)
	s.recipe("condition.yaml")
	problem := filepath.Join(t.TempDir(), "problem")
	s.detect("node-0", problem)
	condition := func(want string) {
		t.Helper()
		s.eventually("the condition is "+want, func(ctx context.Context) (bool, error) {
			node, err := c.CoreV1().Nodes().Get(ctx, "node-0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			for _, c := range node.Status.Conditions {
				if c.Type == "GPUProblem" {
					return string(c.Status)+" "+c.Reason+": "+c.Message == want, nil
				}
			}
			return false, nil
		})
	}
	condition("False GPUsWork: all GPUs work")
	const message = "NVRM: Xid 79 on GPU-0-1: GPU has fallen off the bus"
	do(s, os.WriteFile(problem, []byte(message), 0o600))
	condition("True XIDError: " + message)
	s.wait(s.theDrain(), "Cordoned=True Cordoned")
	if d := s.state(0, 1, v1alpha1.ReactionDrained); !strings.Contains(d.Cause, "GPUProblem=True (XIDError) of node node-0") {
		t.Error(d.Cause)
	}
	if made := s.made(t.Context()); len(made) != 1 || len(s.reaction(t.Context()).Status.Devices) != 1 {
		t.Errorf("%d drains, %+v", len(made), s.reaction(t.Context()).Status.Devices)
	}
	do(s, os.Remove(problem))
	condition("False GPUsWork: all GPUs work")
	s.eventually("the device is healthy", func(ctx context.Context) (bool, error) {
		return s.reaction(ctx).Status.Devices[0].HealthySince != nil, nil
	})
}

// detect runs node-problem-detector for a node, with the rights that Kubernetes has for it. Its plugin
// reports the problem that is in a file.
func (s site) detect(node, problem string) {
	s.Helper()
	user := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "node-problem-detector"}
	do(s, s.create(c.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user.Name},
		Subjects: []rbacv1.Subject{user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-problem-detector"}}, metav1.CreateOptions{})))
	kubeconfig, err := cluster.UserKubeconfig("system:serviceaccount:" + user.Namespace + ":" + user.Name)
	do(s, err)
	dir := s.TempDir()
	plugin, config := filepath.Join(dir, "check.sh"), filepath.Join(dir, "monitor.json")
	do(s, os.WriteFile(plugin, []byte("#!/bin/sh\n[ ! -e "+problem+" ] || { cat "+problem+"; exit 1; }\n"), 0o700))
	text, err := json.Marshal(map[string]any{
		"plugin": "custom", "source": "gpu-monitor", "pluginConfig": map[string]any{"invoke_interval": "1s", "timeout": "5s", "max_output_length": 1024, "concurrency": 1, "enable_message_change_based_condition_update": true},
		"conditions": []any{map[string]any{"type": "GPUProblem", "reason": "GPUsWork", "message": "all GPUs work"}},
		"rules":      []any{map[string]any{"type": "permanent", "condition": "GPUProblem", "reason": "XIDError", "path": plugin}},
	})
	do(s, err)
	do(s, os.WriteFile(config, text, 0o600))
	log, err := os.Create(filepath.Join(cluster.Dir(), "node-problem-detector.log"))
	do(s, err)
	run := exec.Command(s.buildDetector(dir), "--config.custom-plugin-monitor="+config, "--hostname-override="+node, "--port=0", "--prometheus-port=0",
		"--apiserver-override="+cluster.Config().Host+"?inClusterConfig=false&auth="+kubeconfig)
	run.Stdout, run.Stderr = log, log
	do(s, run.Start())
	s.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait() // that it was killed
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); s.Failed() {
			s.Logf("node-problem-detector: %s %v", text, err)
		}
	})
}

// buildDetector builds node-problem-detector as it is released, with its own dependencies.
func (s site) buildDetector(dir string) string {
	s.Helper()
	for _, file := range []string{"mod", "sum"} {
		text, err := os.ReadFile(filepath.Join("testdata", "node-problem-detector."+file))
		do(s, err)
		do(s, os.WriteFile(filepath.Join(dir, "go."+file), text, 0o600))
	}
	binary := filepath.Join(dir, "node-problem-detector")
	build := exec.CommandContext(s.Context(), "go", "build", "-tags", detectorTags, "-o", binary, "k8s.io/node-problem-detector/cmd/nodeproblemdetector")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("node-problem-detector: %v\n%s", err, out)
	}
	return binary
}
