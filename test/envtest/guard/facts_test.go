package guard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cluster/clusterdata"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// untyped is a client for the versions that the minor under test has.
func untyped(t *testing.T) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKeysThatExist: who tolerates a key that no taint has is warned (DRA-TOL-008), until
// a DeviceTaintRule or a device has it.
func TestKeysThatExist(t *testing.T) {
	_, c, seen := guarded(t, nil)
	warned := func(ctx context.Context, key string) bool {
		tolerant := claim("tolerant", resourceapi.DeviceToleration{Key: key, Operator: "Exists", Effect: "NoSchedule"})
		if _, err := c.ResourceV1().ResourceClaims(namespace).Create(ctx, tolerant, dryRun); err != nil {
			t.Fatal(err)
		}
		got := seen.take()
		t.Log(got)
		return strings.Contains(got, "no device has a taint with the key "+key) && strings.Contains(got, "DRA-TOL-008")
	}
	if !warned(t.Context(), "rule.example.com/fautly") || !warned(t.Context(), "device.example.com/hot") {
		t.Error("no warning about a key that no taint has")
	}
	rules := untyped(t).Resource(cluster.DeviceTaintRules())
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule", "metadata": map[string]any{"name": "keys"},
		"spec": map[string]any{"deviceSelector": map[string]any{"driver": "unknown.example.com"}, "taint": map[string]any{"key": "rule.example.com/fautly", "effect": "NoSchedule"}},
	}}
	if _, err := rules.Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hot := gpus(1)
	hot[0].Taints = []resourceapi.DeviceTaint{{Key: "device.example.com/hot", Effect: "NoSchedule"}}
	if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice("keys", hot...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = rules.Delete(ctx, "keys", metav1.DeleteOptions{})
		_ = c.ResourceV1().ResourceSlices().Delete(ctx, "keys", metav1.DeleteOptions{})
	})
	for _, key := range []string{"rule.example.com/fautly", "device.example.com/hot"} {
		eventually(t, key, func(ctx context.Context) (bool, error) { return !warned(ctx, key), nil })
	}
}

// TestLabelsOfNamespaces: a policy sees the labels of a namespace that has just been made
// (DRA-CLAIM-006).
func TestLabelsOfNamespaces(t *testing.T) {
	_, c, seen := guarded(t, nil)
	for name, labels := range map[string]map[string]string{"queued": {"kueue-managed": "true"}, "plain": nil} {
		made, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name, Labels: labels}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		either := claim("either")
		either.Namespace = made.Name
		either.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "large", DeviceClassName: driver}, {Name: "small", DeviceClassName: driver}}}
		if _, err := c.ResourceV1().ResourceClaims(made.Name).Create(t.Context(), either, dryRun); err != nil {
			t.Fatal(err)
		}
		got := seen.take()
		if strings.Contains(got, "DRA-CLAIM-006") != (labels != nil) {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}

// TestFactsWithoutRights: what may not be read does not keep the webhook from being
// ready, and is not taken for absent.
func TestFactsWithoutRights(t *testing.T) {
	admin := client(t, cluster.Config())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "few-facts"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceslices"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "few-facts"}}}
	_, roleErr := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil || roleErr != nil {
		t.Fatal(err, roleErr)
	}
	few, log := factsOf(t, "few-facts")
	eventually(t, "ready", func(context.Context) (bool, error) { return few.ready() == nil, nil })
	if known, sure := few.TaintKey("a.example.com/b"); known || sure {
		t.Errorf("known %v, sure %v of a key, but rules cannot be read", known, sure)
	}
	if got := few.NamespaceLabels("default")[corev1.LabelMetadataName]; got != "default" {
		t.Errorf("labels of a namespace that can only be read singly: %q", got)
	}
	unread, _ := factsOf(t, "no-facts")
	eventually(t, "namespaces are given up", func(context.Context) (bool, error) { return unread.Namespaces.Ready() == nil, nil })
	if labels := unread.NamespaceLabels("default"); len(labels) > 0 {
		t.Errorf("labels %v without any right", labels)
	}
	if text := log.String(); !strings.Contains(text, "cannot watch namespaces") || !strings.Contains(text, "DeviceTaintRule") {
		t.Errorf("nothing says why: %s", text)
	}
}

// observedFacts are facts that follow the cluster.
type observedFacts struct {
	clusterdata.Data
	ready func() error
}

// factsOf follows the cluster as a user until the test ends.
func factsOf(t *testing.T, user string) (observedFacts, *proc.Log) {
	t.Helper()
	config, err := cluster.User(user)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = rest.NoWarnings{}
	buffer := &proc.Log{}
	log := funcr.New(func(prefix, args string) { _, _ = buffer.Write([]byte(prefix + args + "\n")) }, funcr.Options{})
	sources, err := tracker.NewSources(config, log, tracker.RuleKind)
	if err != nil {
		t.Fatal(err)
	}
	tracked := tracker.New(tracker.Options{Sources: sources, Logger: log})
	metrics, err := clusterdata.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := clusterdata.NewNamespaces(client(t, config), metrics, log)
	if err != nil {
		t.Fatal(err)
	}
	f := clusterdata.Data{Namespaces: namespaces, TaintKeys: clusterdata.NewTaintKeys(tracked)}
	go namespaces.Run(t.Context())
	go func() { _ = tracked.Run(t.Context()) }()
	return observedFacts{f, func() error {
		if err := tracked.Ready(); err != nil {
			return err
		}
		return namespaces.Ready()
	}}, buffer
}
