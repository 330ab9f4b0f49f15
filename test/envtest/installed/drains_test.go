package installed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
)

// A drained world is a namespace whose pods have devices of a driver of its own.
type drained struct {
	*testing.T
	client.Client
	clients kubernetes.Interface
	name    string
}

// TestUpgradeWhileDraining is helm upgrade while one drain evicts, one is blocked by a budget, and a
// reaction drains a device: each goes on where it was, and no pod is evicted twice or by the upgrade.
// helm uninstall leaves the drains, the reaction and the cordons, and lists the cordons. The next
// helm install goes on with them.
func TestUpgradeWhileDraining(t *testing.T) {
	c, clients := install(t, drainValues(false, "5m"))
	d := &drained{t, c, clients, "upgraded"}
	d.publish("node-2", 1)
	d.publish("node-1", 1, "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4")
	d.create()
	moving, held, sick := d.run("moving", 3), d.run("held", 1), d.run("sick", 1)
	d.publish("node-2", 2, "gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5")
	d.budget("held")
	d.budget("sick")
	running := d.pods("held", "sick")
	d.drain("moving", moving, 4)
	d.drain("held", held, 30)
	eventually(t, "one pod is evicted", func(context.Context) error { return d.atLeast(1) })
	eventually(t, "a drain is blocked", d.is("held", "Blocked", "BudgetBlocked"))
	before := d.drains()

	install(t, drainValues(true, "5m"))
	d.same("the upgrade that switches reactions on", before, running)
	d.react()
	d.taint("node-1", sick[0])
	eventually(t, "the reaction drains", func(ctx context.Context) error { return d.reacts(ctx, "Draining") })
	eventually(t, "the drain of the reaction is there", func(context.Context) error { return d.have(3) })
	before = d.drains()
	install(t, drainValues(true, "4m"))
	d.same("the next upgrade", before, running)
	eventually(t, "the moving drain ends", d.is("moving", "Drained", "Drained"))
	must(t, d.reacts(t.Context(), "Draining"))

	cordons := d.cordons()
	d.uninstall(cordons)
	d.same("helm uninstall", before, running)
	if now := d.cordons(); !maps.Equal(now, cordons) || len(now) != 5 {
		t.Errorf("the cordons are %v, were %v", now, cordons)
	}
	install(t, drainValues(true, "5m"))
	d.unblock("held")
	eventually(t, "the blocked drain ends", d.is("held", "Drained", "Drained"))
	d.same("helm install", before, d.pods("sick"))
	must(t, d.reacts(t.Context(), "Draining"))
	if now := d.cordons(); !maps.Equal(now, cordons) {
		t.Errorf("after helm install the cordons are %v, were %v", now, cordons)
	}
	d.evictedOnce(4)
}

// drainValues are quick ones, with reactions or without. Another backoff starts another controller.
func drainValues(reactions bool, backoff string) map[string]any {
	values := quick()
	values["controller"] = map[string]any{"reactions": map[string]any{"enabled": reactions}, "drains": map[string]any{"backoff": backoff}}
	return values
}

func (d *drained) driver() string { return d.name + ".example.com" }

// create makes the namespace, and a template for claims of one device.
func (d *drained) create() {
	d.Helper()
	ctx := d.Context()
	must(d.T, d.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.name}}))
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: d.driver()}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", d.driver())}}}
	_, err := d.clients.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
	must(d.T, err)
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class.Name}}}
	_, err = d.clients.ResourceV1().ResourceClaimTemplates(d.name).Create(ctx, template, metav1.CreateOptions{})
	must(d.T, err)
	d.Cleanup(func() {
		always := context.Background()
		_ = d.clients.CoreV1().Namespaces().Delete(always, d.name, metav1.DeleteOptions{})
		_ = d.clients.ResourceV1().DeviceClasses().Delete(always, class.Name, metav1.DeleteOptions{})
		_ = d.clients.ResourceV1().ResourceSlices().DeleteCollection(always, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + d.driver()})
	})
}

// publish writes the slice of a node.
func (d *drained) publish(node string, generation int64, devices ...string) {
	d.Helper()
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: d.name + "-" + node}}
	slice.Spec = resourceapi.ResourceSliceSpec{Driver: d.driver(), NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: 1}}
	for _, device := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device})
	}
	api := d.clients.ResourceV1().ResourceSlices()
	had, err := api.Get(d.Context(), slice.Name, metav1.GetOptions{})
	if err != nil {
		_, err = api.Create(d.Context(), slice, metav1.CreateOptions{})
		must(d.T, err)
		return
	}
	had.Spec = slice.Spec
	_, err = api.Update(d.Context(), had, metav1.UpdateOptions{})
	must(d.T, err)
}

// taint lets the driver taint a device.
func (d *drained) taint(node, device string) {
	d.Helper()
	api := d.clients.ResourceV1().ResourceSlices()
	slice, err := api.Get(d.Context(), d.name+"-"+node, metav1.GetOptions{})
	must(d.T, err)
	slice.Spec.Pool.Generation++
	for i := range slice.Spec.Devices {
		if slice.Spec.Devices[i].Name == device {
			slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
	}
	_, err = api.Update(d.Context(), slice, metav1.UpdateOptions{})
	must(d.T, err)
}

// run runs pods of a ReplicaSet, and returns their devices.
func (d *drained) run(name string, replicas int32) []string {
	d.Helper()
	labels := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}},
		Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}}}
	must(d.T, d.Create(d.Context(), set))
	eventually(d.T, name+" is ready", func(ctx context.Context) error {
		err := d.Get(ctx, client.ObjectKeyFromObject(set), set)
		if err == nil && set.Status.ReadyReplicas != replicas {
			return fmt.Errorf("%d of %d pods are ready", set.Status.ReadyReplicas, replicas)
		}
		return err
	})
	return d.devices(name)
}

// devices are those of the pods of a ReplicaSet.
func (d *drained) devices(name string) (devices []string) {
	d.Helper()
	claims, err := d.clients.ResourceV1().ResourceClaims(d.name).List(d.Context(), metav1.ListOptions{})
	must(d.T, err)
	for _, claim := range claims.Items {
		if len(claim.Status.ReservedFor) == 1 && strings.HasPrefix(claim.Status.ReservedFor[0].Name, name+"-") {
			devices = append(devices, claim.Status.Allocation.Devices.Results[0].Device)
		}
	}
	return devices
}

// budget lets no pod of a ReplicaSet be evicted.
func (d *drained) budget(name string) {
	d.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: name}}
	b.Spec.MaxUnavailable, b.Spec.Selector = new(intstr.FromInt32(0)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	must(d.T, d.Create(d.Context(), b))
	eventually(d.T, "the budget is counted", func(ctx context.Context) error {
		err := d.Get(ctx, client.ObjectKeyFromObject(b), b)
		if err == nil && b.Status.ExpectedPods == 0 {
			return fmt.Errorf("%d pods", b.Status.ExpectedPods)
		}
		return err
	})
}

func (d *drained) unblock(name string) {
	d.Helper()
	must(d.T, d.Delete(d.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: name}}))
}

// drain drains devices of the first node.
func (d *drained) drain(name string, devices []string, perMinute int32) {
	d.Helper()
	spec := v1alpha1.DeviceDrainSpec{EvictionsPerMinute: &perMinute}
	for _, device := range devices {
		spec.Devices = append(spec.Devices, v1alpha1.DeviceName{Driver: d.driver(), Pool: "node-1", Device: device})
	}
	d.object(v1alpha1.DeviceDrainKind, d.name+"-"+name, spec)
}

// react reacts to the taint of the driver.
func (d *drained) react() {
	d.Helper()
	driver := d.driver()
	d.object(v1alpha1.DeviceReactionKind, d.name, v1alpha1.DeviceReactionSpec{
		Mode:     v1alpha1.ReactionAct,
		When:     v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}, For: &metav1.Duration{Duration: 5 * time.Second}},
		Selector: &v1alpha1.DrainSelector{Driver: &driver},
	})
}

// object creates an object that acknowledges what it may evict, when the webhook answers.
func (d *drained) object(kind, name string, spec any) {
	d.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "annotations": map[string]any{v1alpha1.AcknowledgementAnnotation: "pods<=9,namespaces<=1"}}})
	must(d.T, err)
	object := &unstructured.Unstructured{}
	must(d.T, object.UnmarshalJSON(text))
	eventually(d.T, "a "+kind+" can be made", func(ctx context.Context) error { return d.Create(ctx, object) })
	d.Cleanup(func() { _ = d.Delete(context.Background(), object) })
}

// same fails if a drain of before is another one or has less progress, or a pod is another one.
func (d *drained) same(when string, before map[string]v1alpha1.DeviceDrain, running map[string]types.UID) {
	d.Helper()
	now := d.drains()
	for name, was := range before {
		is := now[name]
		if is.UID != was.UID || is.Status.Counts.Evicted < was.Status.Counts.Evicted || was.Status.CompletionTime != nil && is.Status.CompletionTime == nil {
			d.Errorf("%s: drain %s was %s %+v, and is %s %+v", when, name, was.UID, was.Status.Counts, is.UID, is.Status.Counts)
		}
	}
	apps := map[string]bool{}
	for pod := range running {
		app, _, _ := strings.Cut(pod, "-")
		apps[app] = true
	}
	var of []string
	for app := range apps {
		of = append(of, app)
	}
	if pods := d.pods(of...); !maps.Equal(pods, running) {
		d.Errorf("%s: the pods were %v, and are %v", when, running, pods)
	}
}

// pods are those of ReplicaSets.
func (d *drained) pods(sets ...string) map[string]types.UID {
	d.Helper()
	found := map[string]types.UID{}
	for _, set := range sets {
		list, err := d.clients.CoreV1().Pods(d.name).List(d.Context(), metav1.ListOptions{LabelSelector: "app=" + set})
		must(d.T, err)
		for _, pod := range list.Items {
			found[pod.Name] = pod.UID
		}
	}
	return found
}

// drains are those of the driver, by name.
func (d *drained) drains() map[string]v1alpha1.DeviceDrain {
	d.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceDrainKind + "List"))
	must(d.T, d.List(d.Context(), list))
	found := map[string]v1alpha1.DeviceDrain{}
	for _, object := range list.Items {
		var drain v1alpha1.DeviceDrain
		must(d.T, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &drain))
		if strings.HasPrefix(drain.Name, d.name+"-") {
			found[drain.Name] = drain
		}
	}
	return found
}

func (d *drained) have(n int) error {
	if drains := d.drains(); len(drains) != n {
		return fmt.Errorf("%d drains, want %d", len(drains), n)
	}
	return nil
}

// is returns a check that a condition of a drain is true for a reason.
func (d *drained) is(name, kind, reason string) func(context.Context) error {
	return func(context.Context) error {
		conditions := d.drains()[d.name+"-"+name].Status.Conditions
		for _, c := range conditions {
			if c.Type == kind && c.Status == metav1.ConditionTrue && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", conditions)
	}
}

// reacts is nil if the reaction has one device, in a state.
func (d *drained) reacts(ctx context.Context, state string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.DeviceReactionKind))
	if err := d.Get(ctx, client.ObjectKey{Name: d.name}, object); err != nil {
		return err
	}
	devices, _, _ := unstructured.NestedSlice(object.Object, "status", "devices")
	if len(devices) != 1 || devices[0].(map[string]any)["state"] != state {
		return fmt.Errorf("the status is %v", object.Object["status"])
	}
	return nil
}

// cordons are the rules on devices of the driver.
func (d *drained) cordons() map[string]types.UID {
	d.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(cluster.DeviceTaintRules().GroupVersion().WithKind("DeviceTaintRuleList"))
	must(d.T, d.List(d.Context(), list))
	found := map[string]types.UID{}
	for _, rule := range list.Items {
		if driver, _, _ := unstructured.NestedString(rule.Object, "spec", "deviceSelector", "driver"); driver == d.driver() {
			found[rule.GetName()] = rule.GetUID()
		}
	}
	return found
}

// uninstall is helm uninstall, whose hook lists the cordons.
func (d *drained) uninstall(cordons map[string]types.UID) {
	d.Helper()
	upgrading(d.T, func() {
		uninstall := action.NewUninstall(newHelm(d.T, d.clients).config)
		uninstall.Timeout = 3 * time.Minute
		_, err := uninstall.Run(name)
		must(d.T, err)
	})
	said := hookLog()
	for rule := range cordons {
		if !strings.Contains(said, "kubectl delete devicetaintrule "+rule) {
			d.Errorf("the hook did not list %s:\n%s", rule, said)
		}
	}
}

// evictions are the pods that the release has evicted, with how often.
func (d *drained) evictions() map[string]int {
	d.Helper()
	found := map[string]int{}
	for _, e := range testaudit.Entries[struct {
		ObjectRef      struct{ Subresource, Namespace, Name string }
		ResponseStatus struct{ Code int }
	}](d.T, cluster.AuditLog(), 0) {
		if e.ObjectRef.Subresource == "eviction" && e.ObjectRef.Namespace == d.name && e.ResponseStatus.Code < 300 {
			found[e.ObjectRef.Name]++
		}
	}
	return found
}

func (d *drained) atLeast(n int) error {
	if got := len(d.evictions()); got < n {
		return fmt.Errorf("%d pods are evicted", got)
	}
	return nil
}

// evictedOnce expects that so many pods were evicted, and none twice.
func (d *drained) evictedOnce(want int) {
	d.Helper()
	all := d.evictions()
	for pod, n := range all {
		if n != 1 {
			d.Errorf("%s was evicted %d times", pod, n)
		}
	}
	if len(all) != want {
		d.Errorf("%d pods were evicted, want %d: %v", len(all), want, all)
	}
}
