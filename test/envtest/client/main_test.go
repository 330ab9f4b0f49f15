// Package client_test holds how commands reach a real API server: by the habits of kubectl,
// and what they say when they are not allowed to.
package client_test

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest"
)

const driver, namespace = "gpu.example.com", "team-a"

var cluster *envtest.Cluster

// TestMain is also the plugin of kubectl: a link to the test with its name.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := cli.RunAs(ctx, os.Args, cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		stop()
		os.Exit(code)
	}
	options := envtest.Options{Kubectl: true, Nodes: []string{"node-1"}, DeviceTaintRules: true}
	os.Exit(envtest.Main(m, options, func(c *envtest.Cluster) { cluster = c }))
}

// must is for what has no reason to fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// publish makes a node with a label, its two devices, a class, and a pod whose claim has one
// of them.
func publish(t *testing.T) {
	t.Helper()
	c, ctx := must(kubernetes.NewForConfig(cluster.Config()))(t), context.WithoutCancel(t.Context())
	must(c.CoreV1().Nodes().Patch(ctx, "node-1", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"rack":"r7"}}}`), metav1.PatchOptions{}))(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	must(c.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}))(t)
	node := "node-1"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Devices = driver, &node, []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}
	must(c.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}))(t)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "train"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}}}
	claim = must(c.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}))(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train-0"}}
	pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
	pod.Spec.NodeName, pod.Spec.ResourceClaims = node, []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
	must(c.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	pod = must(c.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}))(t)
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim = must(c.ResourceV1().ResourceClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{}))(t)
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: driver, Pool: "node-1", Device: "gpu-1"}}}}
	must(c.ResourceV1().ResourceClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}))(t)
}

// run runs the program.
func run(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), args, cmdutil.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}
