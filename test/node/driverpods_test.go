package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

// The drivers of these tests run as pods of the real controller-manager, on the real kubelet. The
// container runtime is the fake one, which starts no process: a driver is played by this process.
// It begins when the kubelet starts a container of one of its pods, and ends when the kubelet
// stops the container.

const (
	driverNamespace = "drivers"
	// version is the annotation of a pod of a driver; broken ones do not register.
	version, broken = "example.com/version", "broken"
	// surge is the annotation of drivers that register twice during a rolling update.
	surge = "example.com/surge"
)

// stuckTime is how long a consumer is observed that cannot end.
const stuckTime = 60 * time.Second

// players play drivers for as long as their containers run.
type players struct {
	*world
	mutex   sync.Mutex
	running map[string]*driver // by container
	skipped map[string]bool
	// early counts the drivers that ended while claims were prepared.
	early int
	// devices is how many drivers publish that start from now on; waits keeps them from it.
	devices int
	waits   bool
}

// devicesEach is how many devices a driver publishes on a node.
const devicesEach = 4

// play begins to play the drivers of all pods in the namespace of drivers.
func (w *world) play() *players {
	p := &players{world: w, devices: devicesEach, running: map[string]*driver{}, skipped: map[string]bool{}}
	ctx, stop := context.WithCancel(w.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			p.follow(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	w.Cleanup(func() {
		stop()
		done.Wait()
		for _, d := range p.running {
			d.stop()
		}
	})
	return p
}

// follow starts and stops drivers as the runtime has started and stopped their containers.
func (p *players) follow(ctx context.Context) {
	runs := map[string]map[string]string{}
	p.runtime.RuntimeService.Lock()
	for id, c := range p.runtime.RuntimeService.Containers {
		if c.State == cri.ContainerState_CONTAINER_RUNNING && c.Labels["io.kubernetes.pod.namespace"] == driverNamespace {
			runs[id] = c.Labels
		}
	}
	p.runtime.RuntimeService.Unlock()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for id, d := range p.running {
		if runs[id] == nil {
			if d.left() > 0 {
				p.early++
			}
			d.stop()
			delete(p.running, id)
		}
	}
	for id, labels := range runs {
		if p.running[id] == nil && !p.skipped[id] && !p.waits {
			p.begin(ctx, id, labels)
		}
	}
}

func (p *players) begin(ctx context.Context, id string, labels map[string]string) {
	pod, err := p.client.CoreV1().Pods(driverNamespace).Get(ctx, labels["io.kubernetes.pod.name"], metav1.GetOptions{})
	if err != nil {
		return
	}
	if p.skipped[id] = pod.Annotations[version] == broken; p.skipped[id] {
		return
	}
	var options []kubeletplugin.Option
	if pod.Annotations[surge] != "" {
		options = append(options, kubeletplugin.RollingUpdate(pod.UID))
	}
	d := newDriver(pod.Labels["app"]+".example.com", p.cdiDir)
	d.node, d.root = p.node, p.root
	if pod.Annotations[surge] == "" { // of two that run at a time, each would take back what the other publishes
		d.version = pod.Annotations[version]
	}
	if err := d.start(context.WithoutCancel(ctx), p.client, p.devices, options...); err != nil {
		p.Logf("driver %s: %v", d.name, err)
		return
	}
	p.running[id] = d
}

// template is that of the pods of a driver.
func template(name, v string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}, Annotations: map[string]string{version: v}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "driver", Image: image}}, AutomountServiceAccountToken: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
		},
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// createDaemonSet installs a driver.
func (w *world) createDaemonSet(name string, change ...func(*appsv1.DaemonSet)) {
	w.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, "1")}}
	for _, f := range change {
		f(set)
	}
	_, err := w.client.AppsV1().DaemonSets(driverNamespace).Create(w.Context(), set, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) createDeployment(name string) {
	w.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, "1")}}
	_, err := w.client.AppsV1().Deployments(driverNamespace).Create(w.Context(), deployment, metav1.CreateOptions{})
	w.must(err)
}

// roll gives the DaemonSet of a driver another version.
func (w *world) roll(name, to string) {
	w.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, version, to)
	_, err := w.client.AppsV1().DaemonSets(driverNamespace).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

// driverPodOf returns the pod of a driver that is not being deleted, or nil.
func (w *world) driverPodOf(ctx context.Context, name string) *corev1.Pod {
	list, err := w.client.CoreV1().Pods(driverNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i]
		}
	}
	return nil
}

// installed waits until a pod of a driver with a version runs, and its slice is published.
func (w *world) installed(name, v string) *corev1.Pod {
	w.Helper()
	var found *corev1.Pod
	w.within(3*time.Minute, "driver "+name+" "+v+" is installed", func(ctx context.Context) (bool, string) {
		found = w.driverPodOf(ctx, name)
		if found == nil || found.Annotations[version] != v || found.Status.Phase != corev1.PodRunning {
			return false, fmt.Sprint(found)
		}
		return v == broken || w.publishes(ctx, name), "no slice"
	})
	return found
}

func (w *world) publishes(ctx context.Context, name string) bool {
	list, err := w.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + name + ".example.com"})
	return err == nil && len(list.Items) > 0
}

// consume runs a pod with a device of a driver.
func (w *world) consume(driver, name string) {
	w.Helper()
	request := exactly("r", 1)
	request.Exactly.DeviceClassName = driver
	w.createClaim(claimOf(name, request))
	w.run(pod("default", name, named(name), container("main", corev1.ResourceClaim{Name: "c"})))
}

// claimOf is a claim with a request.
func claimOf(name string, request resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: claimSpec(request)}
}

func (w *world) createClassOf(driver string) {
	w.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver+".example.com")}}}}}
	_, err := w.client.ResourceV1().DeviceClasses().Create(w.Context(), class, metav1.CreateOptions{})
	w.must(err)
}

// deleteConsumer deletes a pod as a user does.
func (w *world) deleteConsumer(name string) {
	w.Helper()
	w.must(w.client.CoreV1().Pods("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// isTerminating reports whether a pod exists that is being deleted.
func (w *world) isTerminating(ctx context.Context, name string) (bool, string) {
	now, err := w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	return err == nil && now.DeletionTimestamp != nil, fmt.Sprint(err, now.Status)
}

// endsInTime deletes a consumer, which ends within its grace period and some seconds.
func (w *world) endsInTime(name string) {
	w.Helper()
	begin := time.Now()
	w.deleteConsumer(name)
	w.within(20*time.Second, "consumer "+name+" ends", func(ctx context.Context) (bool, string) {
		_, err := w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	w.Logf("consumer %s ended %s after its deletion", name, time.Since(begin).Round(100*time.Millisecond))
	w.must(w.client.ResourceV1().ResourceClaims("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// uncordon lets pods of Deployments return to the node.
func (w *world) uncordon() {
	w.Helper()
	_, err := w.client.CoreV1().Nodes().Patch(w.Context(), nodeName, types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`), metav1.PatchOptions{})
	w.must(err)
}

// goneFrom waits until a pod is gone.
func (w *world) goneFrom(atMost time.Duration, pod *corev1.Pod) {
	w.Helper()
	begin := time.Now()
	w.within(atMost, "pod "+pod.Name+" of the driver ends", func(ctx context.Context) (bool, string) {
		now, err := w.client.CoreV1().Pods(driverNamespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, fmt.Sprint(err, now.Status)
	})
	w.Logf("driver pod %s was gone %s later", pod.Name, time.Since(begin).Round(100*time.Millisecond))
}

// stays reports it if a pod of a driver is deleted within a time.
func (w *world) stays(pod *corev1.Pod, during time.Duration) {
	w.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		now, err := w.client.CoreV1().Pods(driverNamespace).Get(w.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || now.DeletionTimestamp != nil {
			w.Fatalf("the pod of the driver is ended: %v %v", err, now.DeletionTimestamp)
		}
		select {
		case <-w.Context().Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// The three ways in which drivers are ended before their consumers.
const (
	rolled  = "rolled"  // by the rollout of a DaemonSet
	removed = "removed" // by the removal of a DaemonSet, whose pod the garbage collector deletes
	evicted = "evicted" // by kubectl drain, from a Deployment
)

// TestDriverPods ends drivers in three ways while their devices are used: first without the guard,
// then with it, then while its webhook does not answer.
func TestDriverPods(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("takes minutes, because consumers are watched that cannot end; with DRA_STEWARD_LONG it runs")
	}
	w := newWorld(t)
	w.driver.stop()
	_, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driverNamespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	w.Cleanup(w.removeDrivers)
	w.play()
	for _, name := range []string{rolled, removed, evicted, "surged"} {
		w.createClassOf(name)
	}
	w.createDaemonSet(rolled)
	w.createDaemonSet(removed)
	w.createDeployment(evicted)
	w.checkWithoutGuard()

	g := w.startDriverGuard()
	w.checkRollout()
	w.checkRemoval()
	w.checkDrain()
	w.checkSurge()
	w.checkAnnotation()
	w.must(g.Stop())
	w.checkWithoutAnswer()
}

// checkWithoutGuard: consumers of a driver that ended before them are Terminating until it
// returns. The node agent and why name the case.
func (w *world) checkWithoutGuard() {
	agent := startWatch(w)
	first := map[string]*corev1.Pod{}
	for _, name := range []string{rolled, removed, evicted} {
		first[name] = w.installed(name, "1")
		w.consume(name, name)
	}
	w.roll(rolled, broken)
	w.must(w.client.AppsV1().DaemonSets(driverNamespace).Delete(w.Context(), removed, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	if out, err := w.drain(evicted, time.Minute); err != nil {
		w.Fatalf("kubectl drain: %v %s", err, out)
	}
	for name := range first {
		w.goneFrom(time.Minute, first[name])
		w.deleteConsumer(name)
	}
	select {
	case <-w.Context().Done():
	case <-time.After(stuckTime):
	}
	for name := range first {
		if is, state := w.isTerminating(w.Context(), name); !is {
			w.Errorf("without the guard, the consumer of %s is not Terminating %s after its deletion: %s", name, stuckTime, state)
		}
	}
	w.checkFound(agent)
	w.roll(rolled, "2")
	w.createDaemonSet(removed)
	w.uncordon()
	for name := range first {
		w.gone(2*time.Minute, "default", name)
		w.must(w.client.ResourceV1().ResourceClaims("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
	}
}

// checkFound: the agent's finding, its event, and why name the driver that is gone.
func (w *world) checkFound(agent *watch) {
	w.Helper()
	w.eventually("the agent finds the three pods", func(context.Context) (bool, string) {
		lines := strings.Join(agent.metrics("findings{"), "\n")
		return strings.Contains(lines, `kind="driver-gone"} 3`), lines
	})
	w.eventually("an event is on a pod", func(ctx context.Context) (bool, string) {
		events, err := w.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + removed + ",reason=DriverGone"})
		if err != nil || len(events.Items) == 0 {
			return false, fmt.Sprint("events: ", err)
		}
		return strings.Contains(events.Items[0].Message, "driver removed.example.com, which has prepared claim removed, is not registered"), events.Items[0].Message
	})
	w.within(3*time.Minute, "why names the driver", func(ctx context.Context) (bool, string) {
		var out, errs strings.Builder
		code := cli.Run(ctx, []string{"why", "pod/" + removed, "-n", "default", "--kubeconfig", inside.cluster.Kubeconfig()}, cmdutil.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		said := out.String() + errs.String()
		return code == cmdutil.ExitFindings && strings.Contains(said, "driver removed.example.com, which has to unprepare claim removed, is gone from node "+nodeName), said
	})
}

// drain runs kubectl drain for the pods of a driver and its consumers.
func (w *world) drain(name string, timeout time.Duration) (string, error) {
	out, err := inside.cluster.Kubectl(w.Context(), "drain", nodeName, "--ignore-daemonsets", "--force", "--pod-selector", "app="+name, "--timeout", timeout.String()).CombinedOutput()
	return string(out), err
}

// startDriverGuard installs the chart with nothing on but the rule.
func (w *world) startDriverGuard() *guard.Guard {
	w.Helper()
	var pods []any
	for _, name := range []string{rolled, removed, evicted, "surged"} {
		pods = append(pods, map[string]any{"namespace": driverNamespace, "labels": map[string]any{"app": name}, "names": name + "-*", "drivers": []any{name + ".example.com"}})
	}
	off := map[string]any{"enabled": false}
	g, err := guard.Start(w.Context(), inside.cluster, guard.Options{Values: map[string]any{
		"driverPods": map[string]any{"enabled": true, "pods": pods, "groups": []any{onCall}},
		"guard":      off, "liveData": off, "controller": off,
	}})
	w.must(err)
	w.Cleanup(func() { _ = g.Stop() })
	return g
}

// checkRollout: the DaemonSet waits for the consumer, and goes on when it has ended.
func (w *world) checkRollout() {
	old := w.installed(rolled, "2")
	w.consume(rolled, "waits-for-rollout")
	w.roll(rolled, "3")
	w.eventually("the DaemonSet reports the refusal", func(ctx context.Context) (bool, string) {
		events, err := w.client.CoreV1().Events(driverNamespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedDelete"})
		for _, event := range events.Items {
			if strings.Contains(event.Message, "default/waits-for-rollout of pod waits-for-rollout") {
				w.Logf("event of the DaemonSet: %s", event.Message)
				return true, ""
			}
		}
		return false, fmt.Sprint(err, len(events.Items), " events")
	})
	w.stays(old, 5*time.Second)
	w.endsInTime("waits-for-rollout")
	w.goneFrom(3*time.Minute, old)
	w.installed(rolled, "3")
}

// checkRemoval: the garbage collector waits for the consumer, and a user is refused.
func (w *world) checkRemoval() {
	old := w.installed(removed, "1")
	w.consume(removed, "waits-for-removal")
	err := w.client.CoreV1().Pods(driverNamespace).Delete(w.Context(), old.Name, metav1.DeleteOptions{})
	if !apierrors.IsConflict(err) {
		w.Errorf("a deletion by a user: %v", err)
	}
	w.Logf("a deletion by a user: %v", err)
	w.must(w.client.AppsV1().DaemonSets(driverNamespace).Delete(w.Context(), removed, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	w.stays(old, 10*time.Second)
	w.endsInTime("waits-for-removal")
	w.goneFrom(3*time.Minute, old)
	w.createDaemonSet(removed)
	w.installed(removed, "1")
}

// checkDrain: kubectl drain tries again until the consumer has ended, and succeeds.
func (w *world) checkDrain() {
	old := w.installed(evicted, "1")
	w.consume(evicted, "waits-for-drain")
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := w.drain(evicted, 3*time.Minute)
		done <- result{out, err}
	}()
	w.stays(old, 8*time.Second)
	w.endsInTime("waits-for-drain")
	drained := <-done
	if drained.err != nil || !strings.Contains(drained.out, "will retry after 5s") || !strings.Contains(drained.out, "waits-for-drain") {
		w.Errorf("kubectl drain: %v %s", drained.err, drained.out)
	}
	w.Logf("kubectl drain says: %s", drained.out)
	w.uncordon()
	w.installed(evicted, "1")
}

// checkSurge: a driver that registers twice is updated while a claim is prepared.
func (w *world) checkSurge() {
	w.createDaemonSet("surged", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Annotations[surge] = "true"
		d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0))}}
	})
	old := w.installed("surged", "1")
	w.consume("surged", "stays")
	w.roll("surged", "2")
	w.goneFrom(time.Minute, old)
	w.installed("surged", "2")
	w.endsInTime("stays")
}

// checkAnnotation: a user whom the site names, and the annotation.
func (w *world) checkAnnotation() {
	old := w.installed("surged", "2")
	w.consume("surged", "lost")
	john := w.as("john", "system:masters", onCall)
	pods := john.CoreV1().Pods(driverNamespace)
	if err := pods.Delete(w.Context(), old.Name, metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		w.Errorf("without the annotation: %v", err)
	}
	_, err := pods.Patch(w.Context(), old.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"dra-steward.io/driver-pod-may-end":"firmware hangs"}}}`), metav1.PatchOptions{})
	w.must(err)
	if err := w.client.CoreV1().Pods(driverNamespace).Delete(w.Context(), old.Name, metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		w.Errorf("by somebody else: %v", err)
	}
	w.must(pods.Delete(w.Context(), old.Name, metav1.DeleteOptions{}))
	w.goneFrom(time.Minute, old)
	w.installed("surged", "2")
	w.endsInTime("lost")
}

// checkWithoutAnswer: while the webhook does not answer, nothing waits for it.
func (w *world) checkWithoutAnswer() {
	old := map[string]*corev1.Pod{rolled: w.installed(rolled, "3"), removed: w.installed(removed, "1"), evicted: w.installed(evicted, "1")}
	for name := range old {
		w.consume(name, name)
	}
	w.roll(rolled, "4")
	w.must(w.client.AppsV1().DaemonSets(driverNamespace).Delete(w.Context(), removed, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	if out, err := w.drain(evicted, time.Minute); err != nil {
		w.Errorf("kubectl drain: %v %s", err, out)
	}
	for name := range old {
		w.goneFrom(time.Minute, old[name])
	}
	w.uncordon()
	w.createDaemonSet(removed)
	for name := range old {
		w.deleteConsumer(name)
	}
	for name := range old {
		w.gone(2*time.Minute, "default", name)
	}
}

// removeDrivers removes what the tests have installed.
func (w *world) removeDrivers() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	all := metav1.ListOptions{}
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	for _, err := range []error{
		w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		w.client.AppsV1().DaemonSets(driverNamespace).DeleteCollection(ctx, background, all),
		w.client.AppsV1().Deployments(driverNamespace).DeleteCollection(ctx, background, all),
	} {
		if err != nil {
			w.Error(err)
		}
	}
}
