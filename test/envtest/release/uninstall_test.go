package release_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// A hookRunner stands for the kubelet of the pods of the hook: it runs what their
// container would run, with the rights of their account.
type hookRunner struct {
	mutex sync.Mutex
	out   bytes.Buffer
	ran   map[types.UID]bool
}

func (r *hookRunner) said() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.out.String()
}

// runHooks runs the pods of hooks until the test ends.
func (h helm) runHooks() *hookRunner {
	r := &hookRunner{ran: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	h.t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.observe(ctx, h)
			}
		}
	})
	return r
}

func (r *hookRunner) observe(ctx context.Context, h helm) {
	var pods corev1.PodList
	if err := h.client.List(ctx, &pods, client.InNamespace(h.namespace), client.MatchingLabels{"app.kubernetes.io/component": "uninstall"}); err != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if r.ran[pod.UID] {
			continue
		}
		r.ran[pod.UID] = true
		account := "system:serviceaccount:" + h.namespace + ":" + pod.Spec.ServiceAccountName
		kubeconfig, err := cluster.UserKubeconfig(account, "system:serviceaccounts", "system:serviceaccounts:"+h.namespace)
		if err != nil {
			h.t.Error(err)
			return
		}
		var out bytes.Buffer
		before := client.MergeFrom(pod.DeepCopy())
		pod.Status.Phase = corev1.PodFailed
		if cli.Run(ctx, append(pod.Spec.Containers[0].Args, "--kubeconfig="+kubeconfig), cmdutil.Streams{Out: &out, Err: &out}) == cmdutil.ExitClean {
			pod.Status.Phase = corev1.PodSucceeded
		}
		r.mutex.Lock()
		r.out.Write(out.Bytes())
		r.mutex.Unlock()
		if err := h.client.Status().Patch(ctx, pod, before); err != nil && ctx.Err() == nil {
			h.t.Error(err)
		}
	}
}

// leave makes what a running dra-steward leaves behind: a drain with the rule that it
// cordons a device with, a rule by hand, what the controller keeps, and a Lease that the
// controller gives up when it is told to end.
func (h helm) leave() {
	h.t.Helper()
	drain := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "dra-steward.io/v1alpha1", "kind": "DeviceDrain", "metadata": map[string]any{"name": "firmware"},
		"spec": map[string]any{"devices": []any{map[string]any{"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}}}}}
	eventually(h.t, "a drain can be made", func(ctx context.Context) (bool, error) {
		err := h.client.Create(ctx, drain)
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return false, err
		}
		return err == nil, nil
	})
	controls := true
	driver, pool, device := "gpu.example.com", "node-1", "gpu-0"
	selector := &resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool, Device: &device}
	for _, rule := range []*resourceapi.DeviceTaintRule{
		{ObjectMeta: metav1.ObjectMeta{Name: "drain-firmware-0", Labels: map[string]string{"dra-steward.io/drain": "firmware"},
			Annotations:     map[string]string{"dra-steward.io/drain-uid": string(drain.GetUID()), "example.com/kept": "yes"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "dra-steward.io/v1alpha1", Kind: "DeviceDrain", Name: "firmware", UID: drain.GetUID(), Controller: &controls}}},
			Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: resourceapi.DeviceTaint{Key: "dra-steward.io/drain", Value: "firmware", Effect: resourceapi.DeviceTaintEffectNoSchedule}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses"},
			Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: selector, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
		if err != nil {
			h.t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: content}
		object.SetGroupVersionKind(taintRules())
		if err := h.client.Create(h.t.Context(), object); err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { _ = h.client.Delete(context.Background(), object) })
	}
	holder, seconds, now := "replica-1", int32(3), metav1.NowMicro()
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-controller", Namespace: h.namespace}, Data: map[string]string{"actSince": "2026-01-01T00:00:00Z"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name + "-controller", Namespace: h.namespace},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}},
	} {
		if err := h.client.Create(h.t.Context(), object); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestUninstallStrandsNothing: with the types gone as well, the rule of a drain is still
// in force if it is to be kept, and listed with the command; what was made at run time is
// gone; and what others made is untouched.
func TestUninstallStrandsNothing(t *testing.T) {
	for choice, kept := range map[string]bool{"keep": true, "lift": false} {
		t.Run(choice, func(t *testing.T) {
			h := newHelm(t, "uninstall-"+choice)
			// The webhook does not run here, and without an answer of the guard no drain is made.
			h.must(h.install(current(t), with(values{"uninstall": values{"taintRules": choice}, "crds": values{"keep": false}, "controller": values{"rolls": values{"enabled": true, "nodes": true}}, "guard": values{"enabled": false}})))
			h.leave()
			h.cordon("rolled-"+choice, map[string]string{v1alpha1.RollAnnotation: "kernel"})
			h.cordon("by-hand-"+choice, nil)
			runner := h.runHooks()
			h.must(h.uninstall())
			t.Logf("the hook said:\n%s", runner.said())
			if want := map[bool]string{true: "to delete it: kubectl delete devicetaintrule drain-firmware-0", false: "of DeviceDrain firmware: deleted"}[kept]; !strings.Contains(runner.said(), want) ||
				!strings.Contains(runner.said(), "dra-steward.io/drain=firmware:NoSchedule on driver gpu.example.com pool node-1 device gpu-0") {
				t.Errorf("the hook did not say %q", want)
			}
			h.wantTypesGone()
			if want := map[bool]string{true: "kept; to uncordon it: kubectl uncordon rolled-keep", false: "uncordoned"}[kept]; !strings.Contains(runner.said(), "node rolled-"+choice+", cordoned by DeviceRoll kernel: "+want) || strings.Contains(runner.said(), "by-hand") {
				t.Errorf("the hook did not say of the node %q", want)
			}
			h.wantCordoned("rolled-"+choice, kept)
			h.wantCordoned("by-hand-"+choice, true)
			h.wantRule("drain-firmware-0", kept)
			h.wantRule("somebody-elses", true)
			h.wantNothingLeft()
		})
	}
}

// cordon creates a node that takes no pods.
func (h helm) cordon(name string, annotations map[string]string) {
	h.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.NodeSpec{Unschedulable: true}}
	if err := h.client.Create(h.t.Context(), node); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = h.client.Delete(context.Background(), node) })
}

func (h helm) wantCordoned(name string, want bool) {
	h.t.Helper()
	node := &corev1.Node{}
	if err := h.client.Get(h.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		h.t.Fatal(err)
	}
	if node.Spec.Unschedulable != want || !want && node.Annotations[v1alpha1.RollAnnotation] != "" {
		h.t.Errorf("node %s is cordoned: %v, want %v; annotations %v", name, node.Spec.Unschedulable, want, node.Annotations)
	}
}

// wantTypesGone waits until the types, and with them their objects, are deleted, and the
// garbage collector has had the time to follow.
func (h helm) wantTypesGone() {
	h.t.Helper()
	for resource := range ownTypes() {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(resource + "." + v1alpha1.Group)
		h.wantDeleted(crd)
	}
	// A ConfigMap that depends on an object of another kind that is gone shows when the
	// garbage collector has come round.
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: h.namespace}}
	if err := h.client.Create(h.t.Context(), owner); err != nil {
		h.t.Fatal(err)
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dependent", Namespace: h.namespace,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
	if err := h.client.Create(h.t.Context(), dependent); err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.Delete(h.t.Context(), owner); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, "the garbage collector has come round", func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(h.client.Get(ctx, client.ObjectKeyFromObject(dependent), &corev1.ConfigMap{})), nil
	})
}

func (h helm) wantRule(name string, want bool) {
	h.t.Helper()
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(taintRules())
	err := h.client.Get(h.t.Context(), client.ObjectKey{Name: name}, rule)
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Fatal(err)
	}
	if (err == nil) != want {
		h.t.Errorf("DeviceTaintRule %s is there: %v, want %v", name, err == nil, want)
	}
	if _, bound := rule.GetAnnotations()["dra-steward.io/drain-uid"]; err == nil && (bound || len(rule.GetOwnerReferences()) > 0) {
		h.t.Errorf("DeviceTaintRule %s depends on %v, its drain: %v", name, rule.GetOwnerReferences(), bound)
	}
}

// wantDeleted waits until an object is deleted, longer than the five minutes after which the
// API server looks again at a CustomResourceDefinition whose deletion it did not finish.
func (h helm) wantDeleted(object *unstructured.Unstructured) {
	h.t.Helper()
	var left *unstructured.Unstructured
	err := wait.PollUntilContextTimeout(h.t.Context(), 50*time.Millisecond, 6*time.Minute, true, func(context.Context) (bool, error) {
		left = h.stored(object)
		return left == nil, nil
	})
	if err != nil {
		h.t.Fatalf("%s %s is not deleted: %v; finalizers %q, status %v", object.GetKind(), object.GetName(), err, left.GetFinalizers(), left.Object["status"])
	}
}

// wantNothingLeft fails for anything of ours in the cluster but DeviceTaintRules.
func (h helm) wantNothingLeft() {
	h.t.Helper()
	for _, kind := range []struct{ version, kind string }{
		{"v1", "ConfigMap"}, {"v1", "ServiceAccount"}, {"v1", "Service"}, {"v1", "Secret"}, {"v1", "Pod"}, {"apps/v1", "Deployment"}, {"batch/v1", "Job"},
		{"coordination.k8s.io/v1", "Lease"}, {"policy/v1", "PodDisruptionBudget"},
		{"rbac.authorization.k8s.io/v1", "Role"}, {"rbac.authorization.k8s.io/v1", "RoleBinding"}, {"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"}, {"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
	} {
		eventually(h.t, "no "+kind.kind+" of ours is left", func(ctx context.Context) (bool, error) {
			var all unstructured.UnstructuredList
			all.SetAPIVersion(kind.version)
			all.SetKind(kind.kind + "List")
			if err := h.client.List(ctx, &all); err != nil {
				return false, err
			}
			for _, object := range all.Items {
				if strings.Contains(object.GetName(), name) && (object.GetNamespace() == "" || object.GetNamespace() == h.namespace) {
					return false, nil
				}
			}
			return true, nil
		})
	}
}
