package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A fleet are some nodes with a kubelet and a container runtime each. The kubelets share the network
// namespace of the tests, with an address each, and have mount namespaces of their own: each would
// delete the pods of the others. None has cgroups of pods.
type fleet []*world

const (
	fleetSize  = 3
	fleetLabel = "example.com/fleet"
	// stateVariable holds the folder of a kubelet for the process that becomes it.
	stateVariable = "DRA_STEWARD_NODE_TEST_STATE"
)

func fleetAddress(i int) string { return fmt.Sprint("192.0.2.", 11+i) }

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
	for i := range fleetSize {
		f = append(f, startMachine(t, client, fmt.Sprint("f", i+1), fleetAddress(i)))
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
		w.eventually("node "+w.node+" is ready", func(ctx context.Context) (bool, string) {
			node, err := client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			return isReady(node), fmt.Sprint(node.Status.Conditions, node.Spec.Taints)
		})
	}
	return f
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
func startMachine(t *testing.T, client kubernetes.Interface, name, address string) *world {
	t.Helper()
	w := &world{TB: t, client: client, cdiDir: tempDir(t), node: name}
	kubeconfig, err := inside.cluster.UserKubeconfig("system:node:"+name, "system:nodes")
	w.must(err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, fleetLabel: "true"}}}
	_, err = client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	w.must(err)
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	w.runtime = startRuntime(t, w.cdiDir)
	w.kubelet = newKubeletOf(t, name, address, inside.kubelet, kubeconfig, w.runtime.socket)
	w.kubelet.state = tempDir(t)
	w.root = filepath.Join(w.kubelet.state, filepath.Base(kubeletRoot))
	for _, path := range hidden {
		w.must(os.MkdirAll(filepath.Join(w.kubelet.state, filepath.Base(path)), 0o755))
	}
	t.Cleanup(func() { w.kubelet.stop(t) })
	w.kubelet.start(t)
	return w
}

// apart makes the command of a kubelet this program, in a mount namespace of its own, which becomes the
// kubelet.
func (k *kubelet) apart() {
	arguments := append([]string{k.path}, k.command.Args[1:]...)
	k.command = exec.Command(os.Args[0], arguments...)
	k.command.Env = append(os.Environ(), stateVariable+"="+k.state)
	k.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS}
}

// become puts the folders of a state over the fixed paths of kubelets, and becomes a program.
func become(state string, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("no program")
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
