package drain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A site is what a test has of the cluster: a namespace, a driver and a class of the
// test's name.
type site struct {
	*testing.T
	name, driver string
}

// newSite publishes a number of devices on each node.
func newSite(t *testing.T, name string, perNode int) site {
	t.Helper()
	t.Parallel()
	return newSiteAlone(t, name, perNode)
}

// newSiteAlone is for tests during which no other runs.
func newSiteAlone(t *testing.T, name string, perNode int) site {
	t.Helper()
	s := site{t, name, name + ".example.com"}
	do(s, s.create(c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: s.driver}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + s.driver + `"`}}}
	do(s, s.create(c.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{})))
	for node := range 2 {
		s.publish(node, 1, perNode)
	}
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec = s.request()
	do(s, s.create(c.ResourceV1().ResourceClaimTemplates(name).Create(t.Context(), template, metav1.CreateOptions{})))
	return s
}

func (s site) create(_ any, err error) error { return err }

func do(s site, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// publish writes the slice of a node.
func (s site) publish(node int, generation int64, devices int) {
	s.Helper()
	s.publishOn(fmt.Sprint("node-", node), generation, devices)
}

// publishOn writes the slice of a node with a name.
func (s site) publishOn(name string, generation int64, devices int) {
	s.Helper()
	do(s, s.tryPublish(s.Context(), name, generation, devices))
}

func (s site) tryPublish(ctx context.Context, name string, generation int64, devices int) error {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + name}}
	slice.Spec.Driver, slice.Spec.NodeName = s.driver, &name
	slice.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: generation, ResourceSliceCount: 1}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"node": {IntValue: new(numberOf(name))}}})
	}
	api := c.ResourceV1().ResourceSlices()
	if had, err := api.Get(ctx, slice.Name, metav1.GetOptions{}); err == nil {
		had.Spec = slice.Spec
		return s.create(api.Update(ctx, had, metav1.UpdateOptions{}))
	}
	return s.create(api.Create(ctx, slice, metav1.CreateOptions{}))
}

// numberOf is that at the end of the name of a node, or -1.
func numberOf(name string) int64 {
	number, err := strconv.ParseInt(strings.TrimPrefix(name, "node-"), 10, 64)
	if err != nil {
		return -1
	}
	return number
}

func (s site) request(tolerations ...resourceapi.DeviceToleration) (spec resourceapi.ResourceClaimSpec) {
	spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: s.driver, Tolerations: tolerations}}}
	return spec
}

// replicas runs pods of a ReplicaSet, with claims from the template or with a named one.
func (s site) replicas(name string, n int32, claim string) {
	s.Helper()
	s.replicasOf(name, n, func(pod *corev1.PodSpec) {
		fromTemplate(pod)
		if claim != "" {
			pod.ResourceClaims[0] = corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: &claim}
		}
	})
}

// fromTemplate gives a pod a claim from the template of the site.
func fromTemplate(pod *corev1.PodSpec) {
	pod.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
}

// replicasOf runs pods of a ReplicaSet that get their devices as needs says.
func (s site) replicasOf(name string, n int32, needs func(pod *corev1.PodSpec)) {
	s.Helper()
	s.replicaSet(name, n, needs)
	s.ready(name, n)
}

// replicaSet creates a ReplicaSet, and does not wait for its pods.
func (s site) replicaSet(name string, n int32, needs func(pod *corev1.PodSpec)) {
	s.Helper()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Replicas = &n
	labels := map[string]string{"app": name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = new(int64(1))
	pod.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
	needs(pod)
	do(s, s.create(c.AppsV1().ReplicaSets(s.name).Create(s.Context(), set, metav1.CreateOptions{})))
}

// ready waits until so many pods of a ReplicaSet are.
func (s site) ready(name string, n int32) {
	s.Helper()
	s.eventually("the replicas are ready", func(ctx context.Context) (bool, error) {
		set, err := c.AppsV1().ReplicaSets(s.name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == n, nil
	})
}

// untouched fails if a pod of an app was evicted or deleted.
func (s site) untouched(app string) {
	s.Helper()
	if n := len(evicted(s.T, s.name)) + len(asked(s.T, s.name, "pods", "")); n > 0 {
		s.Errorf("%d pods were evicted or deleted", n)
	}
	if nodes := s.on(app); len(nodes) != 1 || nodes[0] != "node-0" {
		s.Errorf("the pods of %s are on %v", app, nodes)
	}
}

func (s site) scale(name string, n int32) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, n)
	do(s, s.create(c.AppsV1().ReplicaSets(s.name).Patch(s.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "scale")))
}

func (s site) budget(name, app string, minimum int32) {
	s.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.MinAvailable = new(intstr.FromInt32(minimum))
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	do(s, s.create(c.PolicyV1().PodDisruptionBudgets(s.name).Create(s.Context(), b, metav1.CreateOptions{})))
	s.eventually("the budget is counted", func(ctx context.Context) (bool, error) {
		b, err := c.PolicyV1().PodDisruptionBudgets(s.name).Get(ctx, name, metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.ExpectedPods > 0, nil
	})
}

// all selects the devices of a node.
func (s site) all(node int) v1alpha1.DeviceDrainSpec {
	return v1alpha1.DeviceDrainSpec{Selector: &v1alpha1.DrainSelector{Driver: &s.driver,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes[%q].node == %d`, s.driver, node)}}}}}
}

// drain creates a drain of the test's name, with a suffix, with an acknowledgement of
// what the test has.
func (s site) drain(suffix string, spec v1alpha1.DeviceDrainSpec) string {
	s.Helper()
	return s.drainOf(suffix, spec, "pods<=20")
}

// drainOf creates a drain that acknowledges a ceiling.
func (s site) drainOf(suffix string, spec v1alpha1.DeviceDrainSpec, ceiling string) string {
	s.Helper()
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: s.name + suffix,
		Annotations: map[string]string{v1alpha1.AcknowledgementAnnotation: ceiling}}, Spec: spec}
	d.APIVersion, d.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	do(s, err)
	do(s, s.create(drains.Create(s.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})))
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("drain %s: %+v", d.Name, s.get(d.Name, context.WithoutCancel(s.Context())).Status)
		}
		_ = drains.Delete(context.WithoutCancel(s.Context()), d.Name, metav1.DeleteOptions{})
	})
	return d.Name
}

func (s site) get(name string, ctx context.Context) *v1alpha1.DeviceDrain {
	d := &v1alpha1.DeviceDrain{}
	object, err := drains.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d)
	}
	if err != nil {
		s.Logf("drain %s: %v", name, err)
	}
	return d
}

// change updates the spec of a drain, or its annotations.
func (s site) change(name string, change func(d *v1alpha1.DeviceDrain)) {
	s.Helper()
	s.eventually("the drain is changed", func(ctx context.Context) (bool, error) {
		d := s.get(name, ctx)
		change(d)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			return false, err
		}
		_, err = drains.Update(ctx, &unstructured.Unstructured{Object: fields}, metav1.UpdateOptions{})
		return err == nil, nil
	})
}

// event waits for an event about an object.
func (s site) event(namespace, kind, name, reason string) corev1.Event {
	s.Helper()
	var found corev1.Event
	s.eventually(fmt.Sprintf("an event %s about %s %s", reason, kind, name), func(ctx context.Context) (bool, error) {
		list, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",reason=" + reason})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		found = list.Items[0]
		return true, nil
	})
	return found
}

// logged waits for the line about the eviction of a pod in the logs of the controller. The
// line is there at once; an event can be lost with a process that another test kills.
func (s site) logged(drain, pod string) {
	s.Helper()
	s.eventually("a line about the eviction of "+pod, func(context.Context) (bool, error) {
		logs, err := filepath.Glob(filepath.Join(cluster.Dir(), steward.name+"-*.log"))
		if err != nil {
			return false, err
		}
		for _, log := range logs {
			text, err := os.ReadFile(log)
			if err != nil {
				return false, err
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "Evicted pod") && strings.Contains(line, pod) && strings.Contains(line, drain) {
					return true, nil
				}
			}
		}
		return false, nil
	})
}

// cordon are the rules of a drain.
func (s site) cordon(ctx context.Context, drain string) []unstructured.Unstructured {
	list, err := rules.List(ctx, metav1.ListOptions{LabelSelector: "dra-steward.io/drain=" + drain})
	do(s, err)
	return list.Items
}

func condition(d *v1alpha1.DeviceDrain, kind string) (found metav1.Condition) {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return found
}

// wait waits until a drain has a condition, as "Type=True Reason", and returns it.
func (s site) wait(name, want string) metav1.Condition {
	s.Helper()
	kind, _, _ := strings.Cut(want, "=")
	var got metav1.Condition
	s.eventually(want, func(ctx context.Context) (bool, error) {
		got = condition(s.get(name, ctx), kind)
		return fmt.Sprintf("%s=%s %s", got.Type, got.Status, got.Reason) == want, nil
	})
	return got
}

func (s site) eventually(what string, check func(context.Context) (bool, error)) {
	s.Helper()
	most := 3 * time.Minute
	if long() {
		most = 15 * time.Minute
	}
	s.within(most, what, check)
}

func (s site) within(most time.Duration, what string, check func(context.Context) (bool, error)) {
	s.Helper()
	if err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, most, true, check); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// on says on which node the pods of an app are that are not on their way out.
func (s site) on(app string) (nodes []string) {
	s.Helper()
	list, err := c.CoreV1().Pods(s.name).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	do(s, err)
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			nodes = append(nodes, list.Items[i].Spec.NodeName)
		}
	}
	return nodes
}

// watched follows the pods of an app, and returns the fewest that were ready at a time. It
// watches them in etcd, so that it sees each of their states, although the API server is
// restarted meanwhile.
func (s site) watched(app string) (fewest func() int) {
	s.Helper()
	list, err := c.CoreV1().Pods(s.name).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	do(s, err)
	ready := map[string]bool{}
	note := func(pod *corev1.Pod) {
		if is := slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		}); is && pod.DeletionTimestamp == nil && pod.Labels["app"] == app {
			ready[pod.Name] = true
		} else {
			delete(ready, pod.Name)
		}
	}
	for i := range list.Items {
		note(&list.Items[i])
	}
	least := len(ready)
	var mutex sync.Mutex
	s.history("/registry/pods/"+s.name+"/", list.ResourceVersion, func(name string, value []byte) error {
		mutex.Lock()
		defer mutex.Unlock()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} // that it is gone
		if value != nil {
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, pod); err != nil {
				return err
			}
		}
		note(pod)
		least = min(least, len(ready))
		return nil
	})
	return func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return least
	}
}

// history calls changed for each change in etcd below a prefix after a revision, in order;
// what is deleted has no value.
func (s site) history(prefix, after string, changed func(name string, value []byte) error) {
	s.Helper()
	revision, err := strconv.ParseInt(after, 10, 64)
	do(s, err)
	changes, err := s.changes(prefix, revision)
	do(s, err)
	go func() {
		for {
			err := follow(changes, func(key, value []byte, at int64) error {
				revision = at
				return changed(strings.TrimPrefix(string(key), prefix), value)
			})
			if upgrades() && errors.Is(err, errEnded) { // etcd is replaced by another one, which has all changes
				err = wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
					var err error
					changes, err = s.changes(prefix, revision)
					return err == nil, nil
				})
			}
			if s.Context().Err() != nil {
				return
			}
			if err != nil {
				s.Errorf("watch of %s: %v", prefix, err)
				return
			}
		}
	}()
}

// changes begins a watch in etcd below a prefix, after a revision.
func (s site) changes(prefix string, after int64) (io.ReadCloser, error) {
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{"key": []byte(prefix), "range_end": end, "start_revision": after + 1}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, cluster.Etcd()+"/v3/watch", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// errEnded says that etcd has closed the connection of a watch.
var errEnded = errors.New("the connection has ended")

// follow reads changes until their watch ends.
func follow(changes io.ReadCloser, changed func(key, value []byte, at int64) error) error {
	defer changes.Close()
	for decoder := json.NewDecoder(changes); ; {
		var line struct {
			Result struct {
				Canceled bool
				Events   []struct {
					Kv struct {
						Key, Value []byte
						Revision   int64 `json:"mod_revision,string"`
					}
				}
			}
		}
		if err := decoder.Decode(&line); err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		var err error
		if line.Result.Canceled {
			err = errors.New("etcd has ended it")
		}
		for _, event := range line.Result.Events {
			err = errors.Join(err, changed(event.Kv.Key, event.Kv.Value, event.Kv.Revision))
		}
		if err != nil {
			return err
		}
	}
}
