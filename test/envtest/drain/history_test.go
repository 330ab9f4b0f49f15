package drain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// trains runs a pod without a controller that has a device, and waits until it has one.
func (s site) trains(name string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
	pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "a", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}}
	do(s, s.create(c.CoreV1().Pods(s.name).Create(s.Context(), pod, metav1.CreateOptions{})))
	s.eventually(name+" has a device", func(ctx context.Context) (bool, error) {
		pod, err := c.CoreV1().Pods(s.name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
}

// held returns how many claims of the test have a device.
func (s site) held(ctx context.Context) (n int, _ error) {
	claims, err := c.ResourceV1().ResourceClaims(s.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for _, claim := range claims.Items {
		if claim.Status.Allocation != nil {
			n++
		}
	}
	return n, nil
}

// tells waits until the history of a target has lines with these texts, in this order.
func (s site) tells(target string, texts ...string) {
	s.Helper()
	var out bytes.Buffer
	s.eventually("the history has "+strings.Join(texts, ", "), func(ctx context.Context) (bool, error) {
		out.Reset()
		args := []string{"history", target, "-n", s.name, "--kubeconfig=" + cluster.Kubeconfig()}
		if code := cli.Run(ctx, args, cmdutil.Streams{Out: &out, Err: &out}); code != cmdutil.ExitClean {
			return false, nil
		}
		rest := texts
		for line := range strings.Lines(out.String()) {
			if len(rest) > 0 && strings.Contains(line, rest[0]) {
				rest = rest[1:]
			}
		}
		return len(rest) == 0, nil
	})
	s.Logf("\n%s", out.String())
}

// TestHistory: a pod runs on a device and ends, another one takes it, the driver taints it, a reaction
// drains it, and a user acknowledges that it is replaced. The history has all of it in order, though the controller is
// killed twice, and the ConfigMaps are garbled and deleted. It finds the device by the name of a pod that is gone.
func TestHistory(t *testing.T) {
	s := newSiteAlone(t, "history", 1)
	// The controller may have just been started: the history of another device shows that it sees claims by now.
	s.sick(1, 0)
	s.tells(s.driver+"/node-1/gpu-0", "taint example.com/xid=79:NoSchedule added")
	s.publish(1, 9, 0)
	device := s.driver + "/node-0/gpu-0"
	s.trains("train-0")
	do(s, s.create(c.CoreV1().Pods(s.name).Patch(t.Context(), "train-0", types.StrategicMergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status")))
	s.eventually("train-0 has no device", func(ctx context.Context) (bool, error) {
		n, err := s.held(ctx)
		return n == 0, err
	})
	s.trains("train-1")
	do(s, c.CoreV1().Pods(s.name).Delete(t.Context(), "train-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		spec.Brake.PercentOfDriver = ptr.To[int32](100)
		spec.Then.PodsWithoutController = v1alpha1.EvictPods
	})
	<-time.After(time.Second) // the times of claims and taints are whole seconds
	s.sick(0, 0)
	before := []string{"held by history/train-0", "released by history/train-0", "held by history/train-1", "taint example.com/xid=79:NoSchedule added"}
	s.tells(device, before...)
	again := func() {
		t.Helper()
		do(s, steward.kill())
		do(s, steward.start())
	}
	again()
	s.state(0, 0, v1alpha1.ReactionDrained)
	drain := s.theDrain()
	s.tells(device, append(slices.Clone(before), "drain "+drain+" created", "drain "+drain+": Drained")...)
	again()
	expectOf(t, "acknowledge", cmdutil.ExitClean, nil, device, "--reason=replaced, OPS-411")
	s.state(0, 0, v1alpha1.ReactionAcknowledged)
	s.sick(0)
	story := append(slices.Clone(before), "drain "+drain+" created", "drain "+drain+": Drained", "taint example.com/xid=79:NoSchedule removed")
	s.tells(device, story...)
	s.tells(device, "released by history/train-1", "drain "+drain+" deleted")
	s.tells(device, "reaction history began", "reaction history: Drained", "acknowledged: replaced, OPS-411")
	s.tells("pod/train-0", before...)
	s.tells("node/node-0", story...)
	expectOf(t, "history", cmdutil.ExitFailed, []string{`namespace elsewhere has no ConfigMap dra-steward-controller-history-0`}, "--release-namespace=elsewhere")

	maps := c.CoreV1().ConfigMaps(controller.Namespace)
	name := s.shard(device, maps.Get)
	do(s, s.create(maps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"binaryData": {"history.json.gz": "AAAA"}}`), metav1.PatchOptions{})))
	expectOf(t, "history", cmdutil.ExitFailed, []string{"ConfigMap dra-steward/" + name}, device)
	s.sick(0, 0)
	// The same taint within ten minutes is the same entry, which goes on.
	s.tells(device, append(slices.Clone(before[:3]), "taint example.com/xid=79:NoSchedule added (2 times)", "drain "+drain+" created", "drain "+drain+": Drained", "drain "+drain+" deleted")...)
	do(s, maps.Delete(t.Context(), name, metav1.DeleteOptions{}))
	s.sick(0)
	s.tells(device, story...)
}

// shard is the name of the ConfigMap with a device.
func (s site) shard(device string, get func(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error)) (name string) {
	s.Helper()
	var out bytes.Buffer
	for i := range 10 {
		object, err := get(s.Context(), fmt.Sprintf("dra-steward-controller-history-%d", i), metav1.GetOptions{})
		if err != nil {
			continue
		}
		file := writeFile(s, object)
		out.Reset()
		if cli.Run(s.Context(), []string{"history", "-o", "name", "--from-files", file}, cmdutil.Streams{Out: &out, Err: &out}); strings.Contains(out.String(), device) {
			return object.Name
		}
	}
	s.Fatalf("no ConfigMap has %s", device)
	return ""
}

// writeFile writes a ConfigMap into a file.
func writeFile(s site, object *corev1.ConfigMap) string {
	s.Helper()
	object.APIVersion, object.Kind = "v1", "ConfigMap"
	text, err := json.Marshal(object)
	do(s, err)
	file := filepath.Join(s.TempDir(), object.Name+".json")
	do(s, os.WriteFile(file, text, 0o600))
	return file
}
