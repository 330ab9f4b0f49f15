package guard_test

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// driverPod is a driver's account with a token for a pod on a node, as a kubelet mounts
// it, and the right to write slices.
func driverPod(t *testing.T, c kubernetes.Interface, on string) kubernetes.Interface {
	t.Helper()
	driver, _ := driverAccount(t, c, "a-driver", on)
	return driver
}

// driverAccount is the same for an account of a name, with the warnings that it gets.
func driverAccount(t *testing.T, c kubernetes.Interface, name, on string) (kubernetes.Interface, *warnings) {
	t.Helper()
	ctx, last := t.Context(), context.WithoutCancel(t.Context())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: on, ServiceAccountName: name,
		Containers: []corev1.Container{{Name: "driver", Image: "driver"}}}}
	if _, err := c.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CoreV1().ServiceAccounts(namespace).Delete(last, name, metav1.DeleteOptions{}) })
	if _, err := c.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.RbacV1().ClusterRoles().Delete(last, name, metav1.DeleteOptions{}) })
	if _, err := c.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.RbacV1().ClusterRoleBindings().Delete(last, name, metav1.DeleteOptions{}) })
	pod, err := c.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	t.Cleanup(func() {
		_ = c.CoreV1().Pods(namespace).Delete(last, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	token, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = token.Status.Token
	seen := &warnings{}
	config.WarningHandler = seen
	return client(t, config), seen
}

// TestSliceOfAnotherNode: a driver's own token says on which node it runs.
func TestSliceOfAnotherNode(t *testing.T) {
	g, c, _ := guarded(t, nil)
	config := driverPod(t, c, node)
	slices := config.ResourceV1().ResourceSlices()
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	elsewhere := func() *resourceapi.ResourceSlice {
		s := slice("elsewhere", gpus(1)...)
		other := "node-2"
		s.Spec.NodeName = &other
		return s
	}
	eventually(t, "the right to write slices", func(ctx context.Context) (bool, error) {
		_, err := slices.Create(ctx, slice("own", gpus(1)...), dryRun)
		return err == nil, nil
	})
	if _, err := slices.Create(t.Context(), elsewhere(), dryRun); err != nil {
		t.Fatalf("by default it only warns: %v", err)
	}
	metrics, err := g.Metrics(t.Context())
	if err != nil || !strings.Contains(metrics, `dra_steward_admission_findings_total{rule="slice-node-author",severity="warning"} 1`) {
		t.Errorf("no warning was counted: %v", err)
	}
	configure(t, g.Configure(map[string]any{
		"rules":   map[string]any{"slice-node-author": map[string]any{"severity": "error"}},
		"drivers": map[string]any{"mapped.example.com": map[string]any{"users": []any{"system:serviceaccount:gpu:driver"}}},
	}))
	eventually(t, "it denies", func(ctx context.Context) (bool, error) {
		_, err := slices.Create(ctx, elsewhere(), dryRun)
		return err != nil && strings.Contains(err.Error(), "slice-node-author"), nil
	})
	if _, err := slices.Create(t.Context(), slice("own", gpus(1)...), dryRun); err != nil {
		t.Errorf("its own node: %v", err)
	}
	mapped := slice("own", gpus(1)...)
	mapped.Spec.Driver = "mapped.example.com"
	_, err = slices.Create(t.Context(), mapped, dryRun)
	wantDenied(t, err, "spec.driver", "slice-driver-author", "system:serviceaccount:default:a-driver")
}

// TestSliceAuthorChanged: the first account that publishes for a driver is remembered, on whichever
// node its pods run, and another one draws a warning that names both. All kubelets are one identity.
func TestSliceAuthorChanged(t *testing.T) {
	_, c, _ := guarded(t, nil)
	driver, seen := driverAccount(t, c, "first-driver", node)
	other, otherSeen := driverAccount(t, c, "second-driver", node)
	publish := func(by kubernetes.Interface, name, of, node string) {
		t.Helper()
		s := slice(name, gpus(1)...)
		s.Spec.Driver, s.Spec.NodeName, s.Spec.Pool = of, &node, resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
		eventually(t, "slice "+name, func(ctx context.Context) (bool, error) {
			_, err := by.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
			return err == nil, nil
		})
		t.Cleanup(func() {
			_ = c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		})
	}
	draws := func(from *warnings, want bool, who string) {
		t.Helper()
		text := from.take()
		if strings.Contains(text, "slice-author-changed") != want {
			t.Errorf("%s: warned is not %v: %s", who, want, text)
		}
		if want && (!strings.Contains(text, "first-driver") || !strings.Contains(text, "second-driver")) {
			t.Errorf("%s: the warning does not name both: %s", who, text)
		}
	}
	publish(driver, "authors-1", "authors.example.com", node)
	draws(seen, false, "the first account")
	publish(other, "authors-2", "authors.example.com", node)
	draws(otherSeen, true, "another account")
	publish(driver, "authors-3", "authors.example.com", "node-2")
	draws(seen, false, "the first account, for another node")

	for _, name := range []string{"node-1", "node-2"} {
		config, err := cluster.User("system:node:"+name, "system:nodes", "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		kubeletSeen := &warnings{}
		config.WarningHandler = kubeletSeen
		publish(client(t, config), "kubelet-"+name, "kubelets.example.com", name)
		draws(kubeletSeen, false, "the kubelet of "+name)
	}
}

// TestDroppedField warns about a field that this API server does not keep: the webhook
// has asked it for its version.
func TestDroppedField(t *testing.T) {
	_, c, seen := guarded(t, nil)
	s := slice("dropped", gpus(1)...)
	s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"*"}
	known := cluster.DeviceTaintRules().Version == "v1" // an older server does not read the field at all
	eventually(t, "the warning", func(ctx context.Context) (bool, error) {
		_, err := c.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		warned := strings.Contains(seen.take(), "spec.skipNodeOperations: dropped without the feature gate DRAOptionalNodeOperations")
		return warned == known, err
	})
}

// TestCrashingStep: an API server before 1.37 crashes on a step of zero, so it is refused
// before the server looks. One that has the gate off drops the field.
func TestCrashingStep(t *testing.T) {
	_, c, _ := guarded(t, nil)
	if cluster.DeviceTaintRules().Version == "v1alpha3" {
		return
	}
	many, size, least := true, resource.MustParse("8Gi"), resource.MustParse("1Gi")
	device := resourceapi.Device{Name: "gpu-a", AllowMultipleAllocations: &many, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"memory": {Value: size, RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &least,
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &least, Step: &resource.Quantity{}}}}}}
	_, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice("step", device), metav1.CreateOptions{})
	wantDenied(t, err, "requestPolicy.validRange.step", "must be greater than zero", "dra-steward rule capacity-step")
}
