package nodes_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// cluster is shared by the tests; each uses a node of its own.
var cluster *envtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(envtest.Main(m, envtest.Options{}, func(c *envtest.Cluster) { cluster = c }))
}

func startNode(t *testing.T, o nodes.Options) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	n, err := nodes.Start(t.Context(), cluster.Config(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return client
}

func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 3*time.Minute, true, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// createPod makes a pod that is bound to a node, with a claim if one is named.
func createPod(t *testing.T, client kubernetes.Interface, node, claim string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
	}
	if claim != "" {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	}
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func phaseIs(client kubernetes.Interface, pod *corev1.Pod, phase corev1.PodPhase) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		got, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == phase, err
	}
}

func gone(client kubernetes.Interface, pod *corev1.Pod) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}
}

func TestNode(t *testing.T) {
	client := startNode(t, nodes.Options{Names: []string{"alpha"}, Labels: map[string]string{"zone": "a"}, Heartbeat: 100 * time.Millisecond})
	node, err := client.CoreV1().Nodes().Get(t.Context(), "alpha", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) > 0 || node.Labels["zone"] != "a" || node.Status.Allocatable.Pods().Value() != 110 {
		t.Errorf("node at once after Start: %+v", node)
	}
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "alpha", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is renewed", func(ctx context.Context) (bool, error) {
		renewed, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "alpha", metav1.GetOptions{})
		return err == nil && renewed.Spec.RenewTime.After(lease.Spec.RenewTime.Time), err
	})
	notReady := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
	if _, err := client.CoreV1().Nodes().PatchStatus(t.Context(), "alpha", notReady); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is Ready again", func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, "alpha", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}

// TestClaim binds a pod to a node before its claim is reserved for it.
func TestClaim(t *testing.T) {
	client := startNode(t, nodes.Options{Names: []string{"beta"}})
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "device"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
		}}}},
	}
	claim, err := client.ResourceV1().ResourceClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := createPod(t, client, "beta", "device")
	other := createPod(t, client, "beta", "")
	eventually(t, "a pod without claim runs", phaseIs(client, other, corev1.PodRunning))
	if pending, err := phaseIs(client, waiting, corev1.PodPending)(t.Context()); err != nil || !pending {
		t.Fatalf("the pod runs without its claim (%v)", err)
	}
	claim.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "beta", Device: "gpu-0"}},
		}},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: waiting.Name, UID: waiting.UID}},
	}
	if _, err := client.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", phaseIs(client, waiting, corev1.PodRunning))
}

func TestDelete(t *testing.T) {
	client := startNode(t, nodes.Options{Names: []string{"gamma"}})
	pod := createPod(t, client, "gamma", "")
	foreign := createPod(t, client, "somewhere-else", "")
	eventually(t, "the pod runs", phaseIs(client, pod, corev1.PodRunning))
	for _, name := range []string{pod.Name, foreign.Name} {
		if err := client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	eventually(t, "the pod is gone", gone(client, pod))
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the pod is gone after %s, want at once though its grace is 30s", took)
	}
	if is, err := phaseIs(client, foreign, corev1.PodPending)(t.Context()); err != nil || !is {
		t.Errorf("a pod of another node was touched (%v)", err)
	}
}

func TestDeleteWithGrace(t *testing.T) {
	client := startNode(t, nodes.Options{Names: []string{"delta"}, Grace: 0.1})
	pod := createPod(t, client, "delta", "")
	eventually(t, "the pod runs", phaseIs(client, pod, corev1.PodRunning))
	begin := time.Now()
	grace := int64(20)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", gone(client, pod))
	// Timestamps have whole seconds.
	if took := time.Since(begin); took < time.Second {
		t.Errorf("the pod is gone after %s, want about 2s", took)
	}
}

// TestFinalizer keeps the pod of a controller that wants to see its end.
func TestFinalizer(t *testing.T) {
	client := startNode(t, nodes.Options{Names: []string{"epsilon"}})
	pod := createPod(t, client, "epsilon", "")
	held := []byte(`{"metadata":{"finalizers":["example.com/held"]}}`)
	if _, err := client.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.MergePatchType, held, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", phaseIs(client, pod, corev1.PodRunning))
	if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod has failed", phaseIs(client, pod, corev1.PodFailed))
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := client.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", gone(client, pod))
}
