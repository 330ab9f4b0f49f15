package installed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// A Kubelet runs the pods of one namespace as processes.
type Kubelet struct {
	// Namespace is that of the pods.
	Namespace string

	cluster *envtest.Cluster
	admin   *rest.Config
	client  kubernetes.Interface
	dir     string
	program string
	others  map[string]string // programs by the tags of their images; guarded by mutex

	cancel  context.CancelFunc
	running sync.WaitGroup
	nodes   *nodes.Nodes

	mutex   sync.Mutex // guards what follows
	pods    map[string]*Pod
	address byte
	failed  []error
}

// StartKubelet makes the nodes, runs the pods of a namespace on them, and lets the other
// pods of these nodes live and die as package nodes does.
func StartKubelet(ctx context.Context, cluster *envtest.Cluster, namespace string, names ...string) (*Kubelet, error) {
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cluster.Dir(), "kubelet-")
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kubelet{Namespace: namespace, cluster: cluster, admin: cluster.Config(), client: client, dir: dir,
		program: os.Getenv(insideVariable), cancel: cancel, pods: map[string]*Pod{}, others: map[string]string{}}
	k.nodes, err = nodes.Start(ctx, cluster.Config(), nodes.Options{Names: names,
		Except: func(pod *corev1.Pod) bool { return pod.Namespace == namespace }})
	if err != nil {
		cancel()
		return nil, err
	}
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.podChanged(running, o) },
		UpdateFunc: func(_, o any) { k.podChanged(running, o) },
	}); err != nil {
		cancel()
		return nil, err
	}
	k.running.Go(func() { informer.RunWithContext(running) })
	return k, nil
}

// Stop ends all processes and says which ended otherwise than they should.
func (k *Kubelet) Stop() error {
	k.cancel()
	k.nodes.Stop()
	k.running.Wait()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return errors.Join(k.failed...)
}

// Provide lets pods whose image has this tag run another program.
func (k *Kubelet) Provide(tag, program string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.others[tag] = program
}

// programOf is the program of an image.
func (k *Kubelet) programOf(image string) string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	_, tag, _ := strings.Cut(path.Base(image), ":")
	return cmp.Or(k.others[tag], k.program)
}

// Pods returns the pods of a component, "webhook" or "controller", that are not being deleted, the oldest first. Pods of
// a release before end for some seconds after the new ones are ready: All has them, too.
func (k *Kubelet) Pods(component string) []*Pod {
	return slices.DeleteFunc(k.All(component), (*Pod).ending)
}

// All returns the pods of a component whose processes have not ended, the oldest first.
func (k *Kubelet) All(component string) []*Pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	var found []*Pod
	for _, pod := range k.pods {
		if pod.Object.Labels["app.kubernetes.io/component"] == component {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *Pod) int { return a.Started.Compare(b.Started) })
	return found
}

// UpToDate is nil if the kubelet knows which pods of its namespace are being deleted: its watch can be behind what
// Deployments say of themselves.
func (k *Kubelet) UpToDate(ctx context.Context) error {
	list, err := k.client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	exists := map[string]bool{}
	for _, pod := range list.Items {
		exists[string(pod.UID)] = pod.DeletionTimestamp == nil
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for uid, pod := range k.pods {
		if !exists[uid] && !pod.ending() {
			return fmt.Errorf("pod %s was deleted just now", pod.Object.Name)
		}
	}
	return nil
}

// podChanged starts a pod that is bound to a node, and tells one that it is being deleted.
func (k *Kubelet) podChanged(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	known := k.pods[string(pod.UID)]
	switch {
	case known != nil && pod.DeletionTimestamp != nil:
		known.terminate()
	case known == nil && pod.DeletionTimestamp != nil:
		k.running.Go(func() { k.note(k.remove(ctx, pod)) })
	case known == nil && pod.Status.Phase == corev1.PodPending:
		k.address++
		p := &Pod{Object: pod, Address: fmt.Sprintf("192.0.2.%d", k.address), Started: time.Now(), kubelet: k, deleted: make(chan struct{})}
		k.pods[string(pod.UID)] = p
		k.running.Go(func() {
			k.note(p.run(ctx))
			k.mutex.Lock()
			defer k.mutex.Unlock()
			delete(k.pods, string(pod.UID))
		})
	}
}

func (k *Kubelet) note(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		k.failed = append(k.failed, err)
	}
}

// remove deletes the object of a pod that has ended.
func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// status tells the API server whether a pod is ready.
func (k *Kubelet) status(ctx context.Context, p *Pod, ready bool) error {
	condition := corev1.ConditionFalse
	if ready {
		condition = corev1.ConditionTrue
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		pods := k.client.CoreV1().Pods(p.Object.Namespace)
		pod, err := pods.Get(ctx, p.Object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pod.UID != p.Object.UID {
			return true, nil
		}
		if err != nil {
			return false, nil
		}
		pod.Status = runningStatus(pod, p.Address, p.Started, condition)
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err == nil || apierrors.IsNotFound(err), nil
	})
}

// finished tells the API server that the process of a pod has ended for good.
func (k *Kubelet) finished(ctx context.Context, p *Pod, phase corev1.PodPhase) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	_, err := k.client.CoreV1().Pods(p.Object.Namespace).Patch(ctx, p.Object.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// runningStatus is that of a pod whose one container runs.
func runningStatus(pod *corev1.Pod, address string, started time.Time, ready corev1.ConditionStatus) corev1.PodStatus {
	at := metav1.NewTime(started)
	status := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &at}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		value := corev1.ConditionTrue
		if kind == corev1.ContainersReady || kind == corev1.PodReady {
			value = ready
		}
		since := metav1.Now()
		for _, before := range pod.Status.Conditions {
			if before.Type == kind && before.Status == value {
				since = before.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: since})
	}
	container := pod.Spec.Containers[0]
	isReady := ready == corev1.ConditionTrue
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, Ready: isReady, Started: &isReady,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}}
	return status
}

// assign gives the loopback interface of the namespace one more address, and takes it
// away again.
func assign(address string) (release func(), err error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	at := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrAdd(lo, at); err != nil {
		return nil, fmt.Errorf("address %s: %w", address, err)
	}
	return func() { _ = netlink.AddrDel(lo, at) }, nil
}

// Log returns what a pod has logged, by its name; it stays after the pod.
func (k *Kubelet) Log(pod string) string {
	text, err := os.ReadFile(filepath.Join(k.dir, pod+".log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Logs returns what all pods have logged whose names match a pattern of [filepath.Match].
func (k *Kubelet) Logs(pattern string) string {
	files, err := filepath.Glob(filepath.Join(k.dir, pattern+".log"))
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		all.Write(text)
	}
	return all.String()
}
