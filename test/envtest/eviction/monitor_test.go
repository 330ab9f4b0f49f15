package eviction_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// TestMonitor is KEP-5055's story of external health monitoring: a program that has rights
// on DeviceTaintRules and on nothing else takes one device out. It creates the rule with
// the effect None, reads in its status who would have to go, changes the effect to
// NoExecute, reads that they are gone, and later puts the device back. Role and rule are
// those of docs/monitor.
func TestMonitor(t *testing.T) {
	testMonitor(t, nil, map[string]any{"mode": "auto"}, false)
}

// TestLongMonitor is TestMonitor without the controller of Kubernetes.
func TestLongMonitor(t *testing.T) {
	long(t)
	testMonitor(t, alone, map[string]any{"mode": "full"}, true)
}

func testMonitor(t *testing.T, arguments map[string][]string, values map[string]any, byUs bool) {
	t.Helper()
	o := options(t, "1.37", "node-0")
	o.ControllerManagerArgs = arguments
	w := start(t, o)
	const devices = 4
	offer(t, w, devices)
	names := pods(t, w, "train", devices, false)
	defer run(t, w.Cluster, values)()
	later(t)

	m := w.monitor(t)
	m.hasNoOtherRights(t)
	rule := manifest[resourceapi.DeviceTaintRule](t, "rule.yaml")
	onDevice := w.holder(t, *rule.Spec.DeviceSelector.Device)
	m.create(t, rule)
	if said := m.wait(t, rule.Name, "NoEffect"); !regexp.MustCompile(`\b1 published device selected.*\b1 pod would be evicted in 1 namespace`).MatchString(said) {
		t.Fatalf("the preview says %q: this is not what the monitor wants to do", said)
	}
	if got := evictions(t, w.Cluster); len(got) > 0 {
		t.Errorf("the preview evicted %v", got)
	}
	m.setEffect(t, rule.Name, resourceapi.DeviceTaintEffectNoExecute)
	if said := m.wait(t, rule.Name, "Completed"); !regexp.MustCompile(`\b1 pod evicted`).MatchString(said) {
		t.Errorf("the rule says %q", said)
	}
	w.expectBy(t, byUs, onDevice)
	if got := evictions(t, w.Cluster); len(got) != 1 {
		t.Errorf("other pods had to go: %v", got)
	}
	w.expectBack(t, m, rule.Name, onDevice)
	if there := left(t.Context(), t, w, names); len(there) != devices-1 || slices.Contains(there, onDevice) {
		t.Errorf("of the pods %q are left", there)
	}
}

// expectBack creates a pod that only the device is left for, and expects it to run as
// soon as the monitor has put the device back, but not before.
func (w *world) expectBack(t *testing.T, m *monitor, rule, device string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "next"}}
	pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	must(w.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	get := func(ctx context.Context) (*corev1.Pod, error) {
		return w.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	eventually(t, "the scheduler finds no device", func(ctx context.Context) (bool, error) {
		p, err := get(ctx)
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		}), err
	})
	pass(t, 2*time.Second)
	if p := must(get(t.Context()))(t); p.Spec.NodeName != "" {
		t.Errorf("the device of %s, which is tainted, was given to another pod", device)
	}
	m.delete(t, rule)
	eventually(t, "the device is used again", func(ctx context.Context) (bool, error) {
		p, err := get(ctx)
		return err == nil && p.Status.Phase == corev1.PodRunning, err
	})
}

// holder is the pod that has a device.
func (w *world) holder(t *testing.T, device string) string {
	t.Helper()
	claims := must(w.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range claims.Items {
		status := claims.Items[i].Status
		if status.Allocation.Devices.Results[0].Device == device {
			return status.ReservedFor[0].Name
		}
	}
	t.Fatalf("no pod has %s", device)
	return ""
}

// A monitor is a client with the rights of docs/monitor/role.yaml.
type monitor struct{ kubernetes.Interface }

func (w *world) monitor(t *testing.T) *monitor {
	t.Helper()
	role := manifest[rbacv1.ClusterRole](t, "role.yaml")
	must(w.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
	const user = "system:serviceaccount:monitoring:device-monitor"
	must(w.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}))(t)
	return &monitor{kubernetes.NewForConfigOrDie(must(w.User(user, "system:serviceaccounts", "system:serviceaccounts:monitoring"))(t))}
}

func manifest[T any](t *testing.T, name string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(must(os.ReadFile(filepath.Join("../../../docs/monitor", name)))(t), object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return object
}

// hasNoOtherRights fails if the monitor could look at pods, claims or slices by itself.
func (m *monitor) hasNoOtherRights(t *testing.T) {
	t.Helper()
	_, pods := m.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	_, claims := m.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{})
	_, slices := m.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	for what, err := range map[string]error{"pods": pods, "claims": claims, "slices": slices} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the monitor lists %s: %v", what, err)
		}
	}
}

// create waits until the API server knows the new role.
func (m *monitor) create(t *testing.T, rule *resourceapi.DeviceTaintRule) {
	t.Helper()
	eventually(t, "the monitor may create rules", func(ctx context.Context) (bool, error) {
		_, err := m.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// wait waits until the status of the rule, as it is now, has a reason, and returns what
// it says with it.
func (m *monitor) wait(t *testing.T, name, reason string) (said string) {
	t.Helper()
	eventually(t, "the status of the rule has the reason "+reason, func(ctx context.Context) (bool, error) {
		rule, err := m.ResourceV1().DeviceTaintRules().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range rule.Status.Conditions {
			if c.Type == resourceapi.DeviceTaintConditionEvictionInProgress && c.ObservedGeneration == rule.Generation && c.Reason == reason {
				said = c.Message
				return true, nil
			}
		}
		return false, nil
	})
	return said
}

func (m *monitor) setEffect(t *testing.T, name string, effect resourceapi.DeviceTaintEffect) {
	t.Helper()
	eventually(t, "the effect is changed", func(ctx context.Context) (bool, error) {
		rule, err := m.ResourceV1().DeviceTaintRules().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		rule.Spec.Taint.Effect = effect
		_, err = m.ResourceV1().DeviceTaintRules().Update(ctx, rule, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) { // with who writes the status
			return false, nil
		}
		return err == nil, err
	})
}

func (m *monitor) delete(t *testing.T, name string) {
	t.Helper()
	if err := m.ResourceV1().DeviceTaintRules().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
