package node

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
)

const (
	nodeName    = "n1"
	image       = "example.com/app:1"
	deviceCount = 12
	patience    = 3 * time.Minute
)

// inside is what the process in the namespaces shares between tests.
var inside struct {
	cluster *envtest.Cluster
	kubelet string
	// networks are the network namespaces of a fleet, once a test has made them.
	networks []*os.File
}

// runInside starts the control plane for the tests that need it.
func runInside(m *testing.M, kubelet string) int {
	inside.kubelet = kubelet
	return envtest.Main(m, envtest.Options{
		ControllerManager: true, Scheduler: true, Kubectl: true,
		APIServerArgs: map[string][]string{
			"authorization-mode": {"Node", "RBAC"}, "kubelet-preferred-address-types": {"InternalIP"},
			"bind-address": {"0.0.0.0"}, // for kubelets with a network namespace of their own
		},
	}, func(c *envtest.Cluster) { inside.cluster = c })
}

// A world is a node with everything on it.
type world struct {
	testing.TB
	client  kubernetes.Interface
	kubelet *kubelet
	runtime *containerRuntime // nil with a real one
	driver  *driver
	cdiDir  string
	// node is the name of the node, root where the tests see the root directory of its kubelet.
	node, root string
	// minor is that of its kubelet: 37 for 1.37.
	minor int
}

// newWorld starts kubelet, runtime and driver and waits until the node is ready. Tests
// that use it run one after the other: there is one node.
func newWorld(t *testing.T) *world {
	t.Helper()
	var fake *containerRuntime
	w := newWorldWith(t, func(cdiDir string) string {
		fake = startRuntime(t, cdiDir)
		return fake.socket
	})
	w.runtime = fake
	return w
}

// newWorldWith starts a node with a container runtime that listens at the socket which
// start returns.
func newWorldWith(t *testing.T, start func(cdiDir string) string) *world {
	t.Helper()
	if refusal != "" {
		t.Skip(refusal)
	}
	return newWorldIn(t, inside.cluster, start)
}

// newWorldIn starts a node of a cluster.
func newWorldIn(t *testing.T, cluster *envtest.Cluster, start func(cdiDir string) string) *world {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.UserKubeconfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	// The kubelet would register it, but gives up on CSI if that takes long.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	w := &world{TB: t, client: client, cdiDir: tempDir(t), node: nodeName, root: kubeletRoot, minor: kubeletMinor(t)}
	w.kubelet = newKubelet(t, inside.kubelet, kubeconfig, start(w.cdiDir))
	t.Cleanup(func() {
		w.kubelet.stop(t)
		w.kubelet.forget(t)
	})
	w.kubelet.start(t)
	w.driver = startDriver(t, client, w.cdiDir)
	t.Cleanup(func() {
		w.clear()
		if t.Failed() {
			t.Log("end of the kubelet's log:\n" + w.kubelet.tail())
		}
	})
	w.eventually("the node is ready and its slice published", func(ctx context.Context) (bool, string) {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		slices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil || len(slices.Items) == 0 {
			return false, fmt.Sprint("slices: ", err)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
				return true, ""
			}
		}
		return false, fmt.Sprint(node.Status.Conditions, node.Spec.Taints)
	})
	return w
}

// eventually waits until a condition holds, and says what is missing if it does not.
func (w *world) eventually(what string, holds func(context.Context) (bool, string)) {
	w.Helper()
	w.within(patience, what, holds)
}

// within is eventually with another patience.
func (w *world) within(atMost time.Duration, what string, holds func(context.Context) (bool, string)) {
	w.Helper()
	var missing string
	err := wait.PollUntilContextTimeout(w.Context(), 200*time.Millisecond, atMost, true, func(ctx context.Context) (done bool, err error) {
		done, missing = holds(ctx)
		return done, nil
	})
	if err != nil {
		w.Fatalf("%s: %v; %s", what, err, missing)
	}
}

// tempDir is a folder with a short path, as names of sockets must have.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
