package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/test/envtest/guard"
)

const (
	lostNode    = "n2"
	onCall      = "gpu-on-call"
	ending      = "ending"
	removalTime = 4 * time.Minute // the collector waits 40 s, and looks every 20 s
)

var byForce = metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

// TestForceDeletion: with the rule on, deletions by force of pods that hold devices are
// refused, and every other end of a pod comes about.
func TestForceDeletion(t *testing.T) {
	w := newWorld(t)
	w.createClass()
	g := w.startGuard()
	w.loseNode()
	w.createHolders("default", "held", "asks-for-it", "on-call", "evicted")
	w.createHolders(ending, "in-a-namespace")
	w.checkRefused("held")
	w.checkOnCall("on-call")
	asked := w.asked(g)
	if len(asked) != 3 {
		t.Errorf("the API server has asked %v", asked)
	}

	for _, name := range []string{"held", "asks-for-it"} {
		if out, err := inside.cluster.Kubectl(t.Context(), "delete", "pod", name, "--timeout", patience.String()).CombinedOutput(); err != nil {
			t.Errorf("an ordinary deletion of %s: %v %s", name, err, out)
		}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "evicted"}}
	if err := w.client.CoreV1().Pods("default").EvictV1(t.Context(), eviction); err != nil {
		t.Errorf("an ordinary eviction: %v", err)
	}
	w.gone(patience, "default", "evicted")
	if err := w.client.CoreV1().Namespaces().Delete(t.Context(), ending, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone(patience, ending, "in-a-namespace")
	w.within(patience, "the namespace is gone", func(ctx context.Context) (bool, string) {
		_, err := w.client.CoreV1().Namespaces().Get(ctx, ending, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	w.gone(removalTime, "default", "on-a-lost-node")
	// Kubelet, collector and namespace controller delete by force, too, and no request about it reaches the webhook.
	if diff := cmp.Diff(asked, w.asked(g)); diff != "" {
		t.Errorf("ordinary ends of pods were sent:\n%s", diff)
	}
}

// startGuard installs the chart with nothing on but the rule.
func (w *world) startGuard() *guard.Guard {
	off := map[string]any{"enabled": false}
	g, err := guard.Start(w.Context(), inside.cluster, guard.Options{Values: map[string]any{
		"forceDeletion": map[string]any{"enabled": true, "groups": []any{onCall}},
		"guard":         off, "liveData": off, "controller": off,
	}})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := g.Stop(); err != nil {
			w.Error(err)
		}
	})
	return g
}

// asked are the deletions and evictions that the API server has sent.
func (w *world) asked(g *guard.Guard) (lines []string) {
	metrics, err := g.Metrics(w.Context())
	if err != nil {
		w.Error(err)
	}
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "dra_steward_admission_answers_total") && (strings.Contains(line, `kind="Pod"`) || strings.Contains(line, `kind="Eviction"`)) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// createHolders runs pods that hold a device each; one asks for no time to end.
func (w *world) createHolders(namespace string, names ...string) {
	w.Helper()
	if _, err := w.client.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	var all []*corev1.Pod
	for _, name := range names {
		w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: claimSpec(exactly("r", 1))})
		p := pod(namespace, name, named(name), container("main", corev1.ResourceClaim{Name: "c"}))
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeName}
		if name == "asks-for-it" {
			p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		}
		all = append(all, p)
	}
	w.run(all...)
}

// checkRefused deletes and evicts a pod by force.
func (w *world) checkRefused(name string) {
	out, err := inside.cluster.Kubectl(w.Context(), "delete", "pod", name, "--force", "--grace-period=0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "delete it without --force and --grace-period=0") {
		w.Errorf("kubectl delete --force: %v %s", err, out)
	}
	w.Logf("kubectl delete --force says: %s", out)
	collection := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	if err := w.client.CoreV1().Pods("default").DeleteCollection(w.Context(), byForce, collection); !apierrors.IsInvalid(err) {
		w.Errorf("a collection by force: %v", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, DeleteOptions: &byForce}
	if err := w.client.CoreV1().Pods("default").EvictV1(w.Context(), eviction); !apierrors.IsInvalid(err) {
		w.Errorf("an eviction by force: %v", err)
	}
	now, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil || now.DeletionTimestamp != nil {
		w.Errorf("the pod is touched: %v %v", now.DeletionTimestamp, err)
	}
}

// as returns the client of a user.
func (w *world) as(user string, groups ...string) kubernetes.Interface {
	w.Helper()
	config, err := inside.cluster.User(user, groups...)
	if err != nil {
		w.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// checkOnCall: who is named in the configuration may do it.
func (w *world) checkOnCall(name string) {
	if err := w.as("john", "system:masters", onCall).CoreV1().Pods("default").Delete(w.Context(), name, byForce); err != nil {
		w.Errorf("by one who may: %v", err)
	}
}

// loseNode has a pod that holds a device of a node which is removed.
func (w *world) loseNode() {
	ctx := w.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lostNode, Labels: map[string]string{corev1.LabelHostname: lostNode}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: lostNode}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driverName, NodeName: ptr.To(lostNode), Pool: resourceapi.ResourcePool{Name: lostNode, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "dev-0"}},
	}}
	_, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		_, err = w.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	const name = "on-a-lost-node"
	w.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: claimSpec(exactly("r", 1))})
	p := pod("default", name, named(name), container("main", corev1.ResourceClaim{Name: "c"}))
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: lostNode}
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if _, err := w.client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.eventually("the pod is on the node", func(ctx context.Context) (bool, string) {
		now, err := w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && now.Spec.NodeName == lostNode, fmt.Sprint(err, now.Status)
	})
	if err := w.client.CoreV1().Pods("default").Delete(ctx, name, byForce); !apierrors.IsInvalid(err) {
		w.Errorf("by force, while there is the node: %v", err)
	}
	if err := w.client.CoreV1().Nodes().Delete(ctx, lostNode, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// gone waits until a pod and the devices of its claim are free.
func (w *world) gone(atMost time.Duration, namespace, name string) {
	w.Helper()
	w.within(atMost, name+" is gone and its claim free", func(ctx context.Context) (bool, string) {
		now, err := w.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return false, fmt.Sprint(err, now.Status, now.DeletionTimestamp)
		}
		claim, err := w.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && claim.Status.Allocation == nil, fmt.Sprint(err, claim.Status)
	})
}
