package foresight_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
	"github.com/dra-steward/dra-steward/test/envtest/internal/nodes"
)

// A world is a plan that exists.
type world struct {
	*testing.T
	*plan
	client  kubernetes.Interface
	dynamic dynamic.Interface
	// gates are those of the cluster, as it reports them.
	gates   gates.Gates
	kubelet *nodes.Nodes
	// flagged are the pods that would not land again after the change, by name.
	flagged map[string]bool
	// restless are the ReplicaSets whose pods are predicted to land on devices from which they are evicted
	// again, for as long as the taint exists. They need not come to rest.
	restless map[string]bool
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", w.name, err)
	}
}

// prepare makes the namespace, the nodes and what drivers publish.
func (w *world) prepare(o nodes.Options) {
	ctx := w.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	if w.admin {
		namespace.Labels = map[string]string{resourceapi.DRAAdminNamespaceLabelKey: "true"}
	}
	_, err := w.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	w.must(err)
	w.kubelet, err = nodes.Start(ctx, cluster.Config(), o)
	w.must(err)
	for _, class := range w.classes {
		_, err := w.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
		w.must(err)
	}
	for _, slice := range w.slices {
		_, err := w.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		w.must(err)
	}
}

// create makes the nodes and objects, and waits until nothing moves.
func (w *world) create() {
	ctx := w.Context()
	core, devices := w.client.CoreV1(), w.client.ResourceV1()
	w.prepare(nodes.Options{Names: w.nodes, Labels: map[string]string{worldLabel: w.name}, Workers: 2,
		Capacity: corev1.ResourceList{corev1.ResourceCPU: quantity(fmt.Sprint(w.cpu[0])), corev1.ResourceMemory: quantity("64Gi"), corev1.ResourcePods: quantity("110")}})
	for _, template := range w.templates {
		_, err := devices.ResourceClaimTemplates(w.name).Create(ctx, template, metav1.CreateOptions{})
		w.must(err)
	}
	for _, group := range w.groups {
		_, err := w.client.SchedulingV1beta1().PodGroups(w.name).Create(ctx, group, metav1.CreateOptions{})
		w.must(err)
	}
	for _, set := range w.sets {
		_, err := w.client.AppsV1().ReplicaSets(w.name).Create(ctx, set, metav1.CreateOptions{})
		w.must(err)
	}
	w.quiet()
	if w.cordoned != "" {
		_, err := core.Nodes().Patch(ctx, w.cordoned, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		w.must(err)
		w.quiet()
	}
}

// remove ends the world.
func (w *world) remove() {
	ctx := context.WithoutCancel(w.Context())
	background := metav1.DeletePropagationBackground
	for _, set := range w.sets {
		_ = w.client.AppsV1().ReplicaSets(w.name).Delete(ctx, set.Name, metav1.DeleteOptions{PropagationPolicy: &background})
	}
	for _, rule := range w.rules() {
		_ = w.dynamic.Resource(cluster.DeviceTaintRules()).Delete(ctx, rule.Name, metav1.DeleteOptions{})
	}
	for _, slice := range w.slices {
		_ = w.client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{})
	}
	if w.kubelet != nil {
		w.kubelet.Stop()
	}
	for _, node := range w.nodes {
		_ = w.client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})
	}
}

// still is how long nothing may move: some tries of the scheduler. within bounds the wait.
const (
	still  = 4 * time.Second
	within = 2 * time.Minute
)

// quiet waits until nothing moves but the pods of restless ReplicaSets.
func (w *world) quiet() {
	w.Helper()
	w.waitUntil(func() (string, string, bool) {
		state, moves := w.state(w.restless)
		return state, moves, false
	})
}

// settle waits until nothing moves, or until pods of each restless ReplicaSet that moves were created and
// evicted several times. It leaves these in w.restless.
func (w *world) settle() {
	w.Helper()
	if len(w.restless) == 0 {
		return
	}
	gone, last, begun := map[string]int{}, map[string]bool{}, time.Now()
	w.waitUntil(func() (string, string, bool) {
		present := map[string]bool{}
		for _, pod := range w.pods() {
			if present[pod.Name] = true; !last[pod.Name] && w.restless[ownerOf(pod)] {
				last[pod.Name] = true
			}
		}
		for name := range last {
			if !present[name] {
				delete(last, name)
				gone[setOf(name)]++
			}
		}
		state, moves := w.state(nil)
		enough := true
		for set := range w.restless {
			enough = enough && gone[set] >= evictedAgain
		}
		return state, moves, enough || time.Since(begun) > restlessFor
	})
	maps.DeleteFunc(w.restless, func(set string, _ bool) bool { return gone[set] < evictedAgain })
}

// evictedAgain is how many pods of a ReplicaSet are evicted within restlessFor before it counts as one that
// never rests.
const (
	evictedAgain = 4
	restlessFor  = 30 * time.Second
)

// setOf is the ReplicaSet of a pod by its name.
func setOf(pod string) string { return pod[:max(strings.LastIndex(pod, "-"), 0)] }

// waitUntil waits until a state does not change and nothing moves, or until it is done.
func (w *world) waitUntil(look func() (state, moves string, done bool)) {
	w.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	last, since := "", time.Now()
	for {
		state, moves, done := look()
		if state != last || moves != "" {
			last, since = state, time.Now()
		}
		if done || time.Since(since) >= still {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("%s: still moves after %s: %s", w.name, within, moves)
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		}
	}
}

// state is what must not change, and what controllers and the scheduler still have to do, without the pods of
// some ReplicaSets.
func (w *world) state(without map[string]bool) (state, moves string) {
	var all []string
	ready := map[string]int32{}
	wait := func(moving bool, what, name string) {
		if moving {
			moves += what + " " + name + "; "
		}
	}
	pods, claims := w.pods(), w.claims()
	for _, pod := range pods {
		for _, owner := range pod.OwnerReferences {
			ready[owner.Name]++
		}
		if without[ownerOf(pod)] {
			continue
		}
		all = append(all, string(pod.UID)+" "+pod.ResourceVersion)
		refused := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})
		wait(pod.DeletionTimestamp != nil, "terminating pod", pod.Name)
		wait(pod.Status.Phase != corev1.PodRunning && pod.Spec.NodeName != "", "pod that does not run yet", pod.Name)
		// Of a PodGroup that lacks pods, kube-scheduler tries none, and says nothing.
		wait(pod.Spec.NodeName == "" && !refused && pod.Spec.SchedulingGroup == nil, "pod that kube-scheduler has not tried", pod.Name)
	}
	for _, claim := range claims {
		if len(claim.OwnerReferences) > 0 && without[setOf(claim.OwnerReferences[0].Name)] {
			continue
		}
		all = append(all, string(claim.UID)+" "+claim.ResourceVersion)
		wait(claim.DeletionTimestamp != nil, "terminating claim", claim.Name)
	}
	for _, set := range w.sets {
		wait(!without[set.Name] && ready[set.Name] != *set.Spec.Replicas, "ReplicaSet without all pods", set.Name)
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), moves
}

func (w *world) pods() (all []*corev1.Pod) {
	list, err := w.client.CoreV1().Pods(w.name).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (w *world) claims() (all []*resourceapi.ResourceClaim) {
	list, err := w.client.ResourceV1().ResourceClaims(w.name).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// read reads the world.
func (w *world) read() placement.Cluster {
	ctx := w.Context()
	var objects []any
	for _, class := range w.classes {
		stored, err := w.client.ResourceV1().DeviceClasses().Get(ctx, class.Name, metav1.GetOptions{})
		w.must(err)
		objects = append(objects, stored)
	}
	for _, slice := range w.slices {
		stored, err := w.client.ResourceV1().ResourceSlices().Get(ctx, slice.Name, metav1.GetOptions{})
		w.must(err)
		objects = append(objects, stored)
	}
	seen := placement.Cluster{View: tracker.Merge(objects...), Claims: w.claims(), Pods: w.pods(), Gates: w.gates, IncompletePools: minor() == oldest}
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: worldLabel + "=" + w.name})
	w.must(err)
	for i := range list.Items {
		seen.Nodes = append(seen.Nodes, &list.Items[i])
	}
	templates, err := w.client.ResourceV1().ResourceClaimTemplates(w.name).List(ctx, metav1.ListOptions{})
	w.must(err)
	for i := range templates.Items {
		seen.Templates = append(seen.Templates, &templates.Items[i])
	}
	if len(w.groups) == 0 {
		return seen
	}
	groups, err := w.client.SchedulingV1beta1().PodGroups(w.name).List(ctx, metav1.ListOptions{})
	w.must(err)
	for i := range groups.Items {
		seen.Groups = append(seen.Groups, &groups.Items[i])
	}
	return seen
}

// rules are those of the change.
func (w *world) rules() (all []*resourceapi.DeviceTaintRule) {
	c := w.change
	if c.kind == "node away" || c.kind == "arrival" || c.kind == changeClass {
		return nil
	}
	taint := resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
	if c.drains() {
		taint = resourceapi.DeviceTaint{Key: "dra-steward.io/drain", Value: w.name, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	}
	add := func(device *string) {
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", w.name, len(all))}}
		rule.Spec = resourceapi.DeviceTaintRuleSpec{Taint: taint, DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &c.driver, Device: device}}
		if c.pool != "" {
			rule.Spec.DeviceSelector.Pool = &c.pool
		}
		all = append(all, rule)
	}
	if c.kind != "taint devices" && c.kind != drainSiblings {
		add(nil)
	}
	for i := range c.devices {
		add(&c.devices[i])
	}
	return all
}

// taint creates the rules, in the version that the minor has.
func (w *world) taint() {
	rules := cluster.DeviceTaintRules()
	for _, rule := range w.rules() {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
		w.must(err)
		object := &unstructured.Unstructured{Object: fields}
		object.SetGroupVersionKind(rules.GroupVersion().WithKind("DeviceTaintRule"))
		_, err = w.dynamic.Resource(rules).Create(w.Context(), object, metav1.CreateOptions{})
		w.must(err)
	}
}

// planned is the change for the prediction.
func (w *world) planned(seen placement.Cluster) placement.Change {
	if w.change.kind == "node away" {
		return seen.WithoutNodes(w.change.node)
	}
	if w.change.kind == "arrival" {
		change := placement.Change{After: seen}
		for i := range *w.change.arriving.Spec.Replicas {
			pod := &corev1.Pod{ObjectMeta: w.change.arriving.Spec.Template.ObjectMeta, Spec: w.change.arriving.Spec.Template.Spec}
			pod.Namespace, pod.Name = w.name, fmt.Sprintf("%s-%d", w.change.arriving.Name, i)
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: w.change.arriving.Name, Controller: ptr.To(true)}}
			change.Arriving = append(change.Arriving, pod)
		}
		return change
	}
	if w.change.kind == changeClass {
		return seen.With(w.change.class)
	}
	var rules []any
	for _, rule := range w.rules() {
		rules = append(rules, rule)
	}
	if w.change.drains() {
		return seen.Drained(rules, w.drains)
	}
	return seen.With(rules...)
}

// drains reports whether the drain has a device.
func (w *world) drains(id usage.DeviceID) bool {
	return id.Driver == w.change.driver && id.Pool == w.change.pool && (len(w.change.devices) == 0 || slices.Contains(w.change.devices, id.Device))
}

// make carries the change out, and waits until nothing moves.
func (w *world) make(seen placement.Cluster) {
	ctx := w.Context()
	now := int64(0)
	switch w.change.kind {
	case "node away":
		for _, slice := range w.slices {
			if slice.Spec.Pool.Name == w.change.node {
				w.must(w.client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{}))
			}
		}
		w.slices = slices.DeleteFunc(w.slices, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool.Name == w.change.node })
		w.must(w.client.CoreV1().Nodes().Delete(ctx, w.change.node, metav1.DeleteOptions{}))
		for _, l := range seen.On(w.change.node) {
			if err := w.client.CoreV1().Pods(w.name).Delete(ctx, l.Pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
				w.must(err)
			}
		}
	case changeClass:
		stored, err := w.client.ResourceV1().DeviceClasses().Get(ctx, w.change.class.Name, metav1.GetOptions{})
		w.must(err)
		stored.Spec = w.change.class.Spec
		_, err = w.client.ResourceV1().DeviceClasses().Update(ctx, stored, metav1.UpdateOptions{})
		w.must(err)
	case "arrival":
		w.sets = append(w.sets, w.change.arriving)
		_, err := w.client.AppsV1().ReplicaSets(w.name).Create(ctx, w.change.arriving, metav1.CreateOptions{})
		w.must(err)
	default:
		w.taint()
		if w.change.drains() {
			for _, l := range seen.Drained(nil, w.drains).Leaving {
				if err := w.client.CoreV1().Pods(w.name).Delete(ctx, l.Pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					w.must(err)
				}
			}
		}
	}
	w.quiet()
}
