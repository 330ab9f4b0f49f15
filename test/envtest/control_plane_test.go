package envtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// eventually polls until the condition holds, and fails the test after a minute.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func start(t *testing.T, o envtest.Options) *envtest.Cluster {
	t.Helper()
	o.Output = t.Output()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	cluster, err := envtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func clientOf(t *testing.T, cluster *envtest.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// processesOf returns the command lines that mention a folder.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), dir) {
			found = append(found, file+": "+strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}

func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	out, _ := exec.Command("ps", "-o", "pid=,args=", "--ppid", strconv.Itoa(pid)).Output()
	var children []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" && !strings.Contains(line, "ps -o") {
			children = append(children, line)
		}
	}
	return children
}

// TestPodWithClaim takes a pod with a device through its whole life: scheduled
// by the scheduler, run by the stand-in, its claim released by the
// controller-manager, and then stops the control plane without a trace.
func TestPodWithClaim(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, envtest.Options{
		ControllerManager: true,
		Scheduler:         true,
		Nodes:             []string{"node-a", "node-b"},
		Dir:               dir,
	})
	client := clientOf(t, cluster)
	createDevice(t, client, "node-b")
	pod := createPodWithClaim(t, client)

	var claim *resourceapi.ResourceClaim
	eventually(t, "pod is Ready on the device's node", func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || !podReady(pod) {
			return false, err
		}
		claim, err = client.ResourceV1().ResourceClaims("default").Get(ctx, "device", metav1.GetOptions{})
		return pod.Spec.NodeName == "node-b", err
	})
	if claim.Status.Allocation == nil || claim.Status.Allocation.Devices.Results[0].Device != "gpu-0" {
		t.Fatalf("claim is not allocated: %+v", claim.Status)
	}

	if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod is gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	eventually(t, "claim is deallocated", func(ctx context.Context) (bool, error) {
		claim, err := client.ResourceV1().ResourceClaims("default").Get(ctx, "device", metav1.GetOptions{})
		return err == nil && claim.Status.Allocation == nil && len(claim.Finalizers) == 0, err
	})

	if len(processesOf(t, cluster.Dir())) == 0 {
		t.Fatal("no process mentions the cluster's folder: the check below would prove nothing")
	}
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	expectNoTrace(t, dir)
}

// expectNoTrace checks that no process and no file of a cluster is left.
func expectNoTrace(t *testing.T, dir string) {
	t.Helper()
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("processes left: %s", left)
	}
	if left := childrenOf(t, os.Getpid()); len(left) > 0 {
		t.Errorf("children left: %s", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "run-*")); len(left) > 0 {
		t.Errorf("folders left: %s", left)
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return pod.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

func createDevice(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`},
		}}},
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus-" + node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			Pool:     resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1},
			NodeName: &node,
			Devices:  []resourceapi.Device{{Name: "gpu-0"}},
		},
	}
	if _, err := client.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createPodWithClaim(t *testing.T, client kubernetes.Interface) *corev1.Pod {
	t.Helper()
	claimName := "device"
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
		}}}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/worker",
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}},
			}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claimName}},
		},
	}
	if _, err := client.ResourceV1().ResourceClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestOtherUser(t *testing.T) {
	cluster := start(t, envtest.Options{})
	config, err := cluster.User("alice", "tenants")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	self, err := alice.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || self.Status.UserInfo.Username != "alice" {
		t.Fatalf("authenticated as %+v, %v", self, err)
	}
	_, err = alice.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("alice lists secrets: %v", err)
	}
}
