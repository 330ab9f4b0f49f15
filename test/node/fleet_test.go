package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A fleet are some nodes with a kubelet and a container runtime each. Each kubelet has a network namespace
// with its address, a cgroup, below which it keeps those of its pods, and a mount namespace with folders of
// its own: it would delete the pods of the others.
type fleet []*world

const (
	fleetSize  = 3
	fleetLabel = "example.com/fleet"
	// stateVariable holds the folder of a kubelet for the process that becomes it.
	stateVariable = "DRA_STEWARD_NODE_TEST_STATE"
)

// newFleet starts them and waits until they are ready.
func newFleet(t *testing.T) fleet {
	t.Helper()
	if refusal != "" {
		t.Skip(refusal)
	}
	client, err := kubernetes.NewForConfig(inside.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	var f fleet
	if inside.networks == nil {
		inside.networks = newNetworks(t)
	}
	for i := range fleetSize {
		f = append(f, startMachine(t, client, i))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, w := range f {
				t.Logf("end of the log of the kubelet of %s:\n%s", w.node, w.kubelet.tail())
			}
		}
		f[0].clear()
	})
	for _, w := range f {
		w.nodeIs(w.node, true)
	}
	return f
}

// of is the fleet of a part of a test.
func (f fleet) of(t testing.TB) (part fleet) {
	for _, w := range f {
		own := *w
		own.TB = t
		part = append(part, &own)
	}
	return part
}

// on is the node of a name.
func (f fleet) on(node string) *world {
	f[0].Helper()
	for _, w := range f {
		if w.node == node {
			return w
		}
	}
	f[0].Fatalf("no node %q", node)
	return nil
}

// nodeIs waits until pods can run on a node, or cannot.
func (w *world) nodeIs(name string, ready bool) {
	w.Helper()
	w.eventually(fmt.Sprintf("node %s is ready: %t", name, ready), func(ctx context.Context) (bool, string) {
		node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return isReady(node) == ready, fmt.Sprint(node.Status.Conditions, node.Spec.Taints)
	})
}

// isReady reports whether pods can run on a node.
func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return len(node.Spec.Taints) == 0
		}
	}
	return false
}

// startMachine starts one of them.
func startMachine(t *testing.T, client kubernetes.Interface, i int) *world {
	t.Helper()
	name := fmt.Sprint("f", i+1)
	w := &world{TB: t, client: client, cdiDir: tempDir(t), node: name}
	kubeconfig, err := inside.cluster.UserKubeconfig("system:node:"+name, "system:nodes")
	w.must(err)
	w.must(throughBridge(kubeconfig))
	w.createNode()
	t.Cleanup(func() {
		err := client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	w.runtime = startRuntime(t, w.cdiDir)
	w.kubelet = newKubeletOf(t, name, fleetAddress(i), inside.kubelet, kubeconfig, w.runtime.socket)
	w.kubelet.state = tempDir(t)
	w.root = filepath.Join(w.kubelet.state, filepath.Base(kubeletRoot))
	for _, path := range hidden {
		w.must(os.MkdirAll(filepath.Join(w.kubelet.state, filepath.Base(path)), 0o755))
	}
	w.must(w.kubelet.useCgroups(t))
	w.kubelet.network = inside.networks[i]
	t.Cleanup(func() { w.kubelet.stop(t) })
	w.kubelet.start(t)
	return w
}

// createNode creates the node of one of them.
func (w *world) createNode() {
	w.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node, Labels: map[string]string{corev1.LabelHostname: w.node, fleetLabel: "true"}}}
	_, err := w.client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	w.must(err)
}

// apart makes the command of a kubelet this program, in a mount namespace of its own, which becomes the
// kubelet in its network namespace.
func (k *kubelet) apart() {
	arguments := append([]string{k.path}, k.command.Args[1:]...)
	k.command = exec.Command(os.Args[0], arguments...)
	k.command.Env = append(os.Environ(), stateVariable+"="+k.state)
	k.command.ExtraFiles = []*os.File{k.network}
	k.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS}
}

// become enters the network namespace that it inherits, puts the folders of a state over the fixed paths of
// kubelets, and becomes a program.
func become(state string, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("no program")
	}
	runtime.LockOSThread() // that of the program
	network := netns.NsHandle(3)
	if err := errors.Join(netns.Set(network), network.Close()); err != nil {
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, path := range hidden {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(filepath.Join(state, filepath.Base(path)), path, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("hiding %s: %w", path, err)
		}
	}
	return syscall.Exec(arguments[0], arguments, os.Environ())
}

// play plays the drivers of all nodes.
func (f fleet) play() (all []*players) {
	for _, w := range f {
		all = append(all, w.play())
	}
	return all
}

// driverPods are the pods of a driver that are not being deleted, by node.
func (f fleet) driverPods(ctx context.Context, name string) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	list, err := f[0].client.CoreV1().Pods(driverNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		f[0].Log(err)
		return nil
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pods[list.Items[i].Spec.NodeName] = &list.Items[i]
		}
	}
	return pods
}

// drives waits until a version of a driver runs on each node, and has published its devices. It returns
// the pods by node.
func (f fleet) drives(name, v string) map[string]*corev1.Pod {
	f[0].Helper()
	var pods map[string]*corev1.Pod
	f[0].within(3*time.Minute, "version "+v+" of driver "+name+" publishes", func(ctx context.Context) (bool, string) {
		pods = f.driverPods(ctx, name)
		published, err := f.versions(ctx, name)
		for _, w := range f {
			if pod := pods[w.node]; err != nil || pod == nil || pod.Annotations[version] != v || pod.Status.Phase != corev1.PodRunning || published[w.node] != v {
				return false, fmt.Sprint(err, len(pods), " pods, published: ", published)
			}
		}
		return true, ""
	})
	return pods
}

// versions are those of the devices of a driver, by node.
func (f fleet) versions(ctx context.Context, name string) (map[string]string, error) {
	list, err := f[0].client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + name + ".example.com"})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for i := range list.Items {
		spec := &list.Items[i].Spec
		if len(spec.Devices) > 0 && spec.NodeName != nil && spec.Devices[0].Attributes["driverVersion"].StringValue != nil {
			versions[*spec.NodeName] = *spec.Devices[0].Attributes["driverVersion"].StringValue
		}
	}
	return versions, nil
}
