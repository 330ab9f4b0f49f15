package guard_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/taintrules"
)

const acknowledged = "dra-steward.io/acknowledged-impact"

var notStored = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// versionsOfTaintRules are all in which the server under test has them.
func versionsOfTaintRules(t *testing.T, c kubernetes.Interface) (all []schema.GroupVersionResource) {
	t.Helper()
	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		resources, err := c.Discovery().ServerResourcesForGroupVersion(resourceapi.GroupName + "/" + version)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if resources == nil {
			continue
		}
		for _, resource := range resources.APIResources {
			if resource.Name == "devicetaintrules" {
				all = append(all, cluster.DeviceTaintRules().GroupResource().WithVersion(version))
			}
		}
	}
	return all
}

// holders makes two namespaces with two pods each that hold the devices gpu-a to gpu-d of 8.
func holders(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	pool := slice("radius", gpus(8)...)
	pool.Spec.Pool = resourceapi.ResourcePool{Name: "rack", Generation: 1, ResourceSliceCount: 1}
	create(t, c.ResourceV1().ResourceSlices(), pool)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, pool.Name, metav1.DeleteOptions{}) })
	for i := range 4 {
		in := fmt.Sprintf("radius-%d", i/2)
		if i%2 == 0 {
			eventually(t, "the namespace of the test before is gone", func(ctx context.Context) (bool, error) {
				_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}, metav1.CreateOptions{})
				return err == nil, nil
			})
			t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, in, metav1.DeleteOptions{}) })
			create(t, c.CoreV1().ServiceAccounts(in), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
			create(t, c.PolicyV1().PodDisruptionBudgets(in), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "holders"},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "holder"}}}})
		}
		hold(t, c, in, fmt.Sprintf("holder-%d", i), "gpu-"+string(rune('a'+i)))
	}
}

// hold makes a pod on a node with a claim that a device of the pool rack is allocated to.
func hold(t *testing.T, c kubernetes.Interface, in, name, device string) {
	t.Helper()
	holdIn(t, c, in, name, "rack", device)
}

// holdIn is the same with a device of any pool.
func holdIn(t *testing.T, c kubernetes.Interface, in, name, pool, device string) {
	t.Helper()
	holdWith(t, c, in, name, resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driver, Pool: pool, Device: device})
}

// holdWith is holdIn with an allocation, and what drivers report about the device.
func holdWith(t *testing.T, c kubernetes.Interface, in, name string, result resourceapi.DeviceRequestAllocationResult, reported ...metav1.Condition) {
	t.Helper()
	pod := create(t, c.CoreV1().Pods(in), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "holder"}},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "holder", AutomountServiceAccountToken: new(false),
			Containers:     []corev1.Container{{Name: "a", Image: "example.com/a", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}},
	})
	held := claim(name)
	held.Namespace = in
	held.Finalizers = []string{resourceapi.Finalizer}
	held = create(t, c.ResourceV1().ResourceClaims(in), held)
	held.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{result},
	}}
	if len(reported) > 0 {
		held.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: result.Driver, Pool: result.Pool, Device: result.Device, Conditions: reported}}
	}
	if _, err := c.ResourceV1().ResourceClaims(in).UpdateStatus(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func create[T any](t *testing.T, c interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}, object T) T {
	t.Helper()
	stored, err := c.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// ruleOf writes a DeviceTaintRule; selector is "driver", "driver/pool" or
// "driver/pool/device", empty for everything.
func ruleOf(version schema.GroupVersionResource, name, selector, effect, acknowledges string) *unstructured.Unstructured {
	parts := map[string]any{}
	for i, part := range strings.Split(selector, "/") {
		if part != "" {
			parts[[]string{"driver", "pool", "device"}[i]] = part
		}
	}
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version.GroupVersion().String(), "kind": "DeviceTaintRule", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"deviceSelector": parts, "taint": map[string]any{"key": "example.com/broken", "effect": effect}},
	}}
	if acknowledges != "" {
		rule.SetAnnotations(map[string]string{acknowledged: acknowledges})
	}
	return rule
}

// lowThresholds refuse what hits all four pods.
var lowThresholds = map[string]any{"guard": map[string]any{"thresholds": map[string]any{"pods": 3, "namespaces": 1}}}

const (
	rack     = driver + "/rack"
	hitsRack = "affects 4 allocated devices and 4 claims, 4 pods in 2 namespaces (radius-0, radius-1): radius-0/holder-0, radius-0/holder-1, radius-1/holder-2 and 1 more; and 2 PodDisruptionBudgets: radius-0/holders (2 pods, 0 can be evicted now), radius-1/holders (2 pods, 0 can be evicted now) (dra-steward rule guard-impact)"
)

// TestRadius writes rules in every version that the server has, and drains: what hits
// too much is refused with its counts, unless a user has said that it may be so much.
func TestRadius(t *testing.T) {
	g, c, seen := guarded(t, lowThresholds)
	holders(t, c)
	config := cluster.Config()
	config.WarningHandler = seen
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for i, version := range versionsOfTaintRules(t, c) {
		t.Run(version.Version, func(t *testing.T) {
			rules := untyped.Resource(version)
			if i == 0 {
				eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
					_, err := rules.Create(ctx, ruleOf(version, "rack", rack, "NoExecute", ""), notStored)
					return err != nil && strings.Contains(err.Error(), "hits 4 pods"), nil
				})
				seen.take()
			}
			radiusOfNew(t, rules, version, seen)
			radiusOfUpdates(t, rules, version)
			sentNothing(t, g, func() { applyAgain(t, version) })
		})
	}
	radiusOfDrains(t, untyped)
	t.Run("our own controller", func(t *testing.T) {
		config, err := cluster.User("system:serviceaccount:dra-steward:dra-steward-controller", "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		ours, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		sentNothing(t, g, func() {
			if _, err := ours.Resource(cluster.DeviceTaintRules()).Create(t.Context(), ruleOf(cluster.DeviceTaintRules(), "rack", rack, "NoExecute", ""), notStored); err != nil {
				t.Error(err)
			}
		})
	})
	withoutGuard(t, g, untyped.Resource(cluster.DeviceTaintRules()))
}

func radiusOfNew(t *testing.T, rules dynamic.ResourceInterface, version schema.GroupVersionResource, seen *warnings) {
	for name, tt := range map[string]struct {
		selector, effect, acknowledges string
		denied                         []string
		warned                         string
	}{
		"the rack": {rack, "NoExecute", "", []string{"hits 4 pods, more than the threshold of 3", "hits 2 namespaces, more than the threshold of 1",
			"hits 4 of the 8 devices of its drivers, more than the threshold of 25 %", `dra-steward drain`, acknowledged + `: "pods<=4,namespaces<=2"`}, hitsRack},
		"everything":                  {"", "NoExecute", "", []string{"an empty selector with the effect NoExecute"}, ""},
		"everything, acknowledged":    {"", "NoExecute", "pods<=400,namespaces<=20", nil, "allocated devices"},
		"the rack, acknowledged":      {rack, "NoExecute", "pods<=4,namespaces<=2", nil, hitsRack},
		"acknowledged too little":     {rack, "NoExecute", "pods<=3,namespaces<=2", []string{"hits 4 pods, more than the acknowledged 3"}, ""},
		"acknowledged in other words": {rack, "NoExecute", "yes", []string{`"yes" has no <=`, "such as pods<=120,namespaces<=4"}, ""},
		"one device":                  {rack + "/gpu-d", "NoExecute", "", nil, "affects 1 allocated device and 1 claim, 1 pod in 1 namespace (radius-1): radius-1/holder-3"},
		"a device that no pod has":    {rack + "/gpu-h", "NoExecute", "", nil, "affects no pods"},
		"preview":                     {rack, preview(), "", nil, ""},
		"cordon":                      {rack, "NoSchedule", "", nil, ""},
	} {
		_, err := rules.Create(t.Context(), ruleOf(version, "rack", tt.selector, tt.effect, tt.acknowledges), notStored)
		switch warned := seen.take(); {
		case !strings.Contains(warned, tt.warned):
			t.Errorf("%s: warnings %q, want %q", name, warned, tt.warned)
		case tt.denied != nil:
			wantDenied(t, err, tt.denied...)
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
}

func preview() string { return string(taintrules.Preview(cluster)) }

// radiusOfUpdates leaves nothing behind.
func radiusOfUpdates(t *testing.T, rules dynamic.ResourceInterface, version schema.GroupVersionResource) {
	always := context.WithoutCancel(t.Context())
	create(t, creator{rules}, ruleOf(version, "preview", rack, preview(), ""))
	defer rules.Delete(always, "preview", metav1.DeleteOptions{})
	create(t, creator{rules}, ruleOf(version, "running", rack+"/gpu-h", "NoExecute", ""))
	defer rules.Delete(always, "running", metav1.DeleteOptions{})
	patch := func(name, with string) error {
		_, err := rules.Patch(t.Context(), name, types.MergePatchType, []byte(with), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const real, acknowledges = `{"spec":{"taint":{"effect":"NoExecute"}}}`, `"metadata":{"annotations":{"` + acknowledged + `":"pods<=4,namespaces<=2"}}`
	wantDenied(t, patch("preview", real), "hits 4 pods")
	wantDenied(t, patch("running", `{"spec":{"deviceSelector":{"device":null}}}`), "hits 4 pods")
	wantDenied(t, patch("running", `{"spec":{"deviceSelector":{"device":null,"pool":null,"driver":null}}}`), "an empty selector")
	for name, with := range map[string]string{
		"preview": `{` + acknowledges + `,"spec":{"taint":{"effect":"NoExecute"}}}`,
		"running": `{"metadata":{"labels":{"a":"b"}},"spec":{"taint":{"effect":"` + preview() + `"},"deviceSelector":{"device":null}}}`,
	} {
		if err := patch(name, with); err != nil {
			t.Errorf("%s with %s: %v", name, with, err)
		}
	}
}

// applyAgain applies one manifest as GitOps does, in two ways, after it was stored.
func applyAgain(t *testing.T, version schema.GroupVersionResource) {
	rule := ruleOf(version, "gitops", rack, preview(), "")
	for _, way := range [][]string{{"apply", "-f", "-"}, {"apply", "--server-side", "--force-conflicts", "-f", "-"}} {
		for range 2 {
			kubectl(t, string(marshal(t, rule)), way...)
		}
	}
	kubectl(t, "", "delete", "devicetaintrules", "gitops")
}

func radiusOfDrains(t *testing.T, c dynamic.Interface) {
	drains := c.Resource(schema.GroupVersionResource{Group: "dra-steward.io", Version: "v1alpha1", Resource: "devicedrains"})
	drain := func(change func(spec map[string]any)) error {
		spec := map[string]any{"selector": map[string]any{"driver": driver, "pool": "rack"}}
		change(spec)
		_, err := drains.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "dra-steward.io/v1alpha1", "kind": "DeviceDrain", "metadata": map[string]any{"name": "rack"}, "spec": spec,
		}}, notStored)
		return err
	}
	wantDenied(t, drain(func(map[string]any) {}), "hits 4 pods, more than the threshold of 3")
	if err := drain(func(spec map[string]any) { spec["paused"] = true }); err != nil {
		t.Error(err)
	}
	if err := drain(func(spec map[string]any) {
		spec["devices"] = []any{map[string]any{"driver": driver, "pool": "rack", "device": "gpu-a"}}
		delete(spec, "selector")
	}); err != nil {
		t.Error(err)
	}
}

// withoutGuard stops dra-steward: no eviction can begin, and each can be stopped.
func withoutGuard(t *testing.T, g *guard.Guard, rules dynamic.ResourceInterface) {
	always, version := context.WithoutCancel(t.Context()), cluster.DeviceTaintRules()
	for _, name := range []string{"stopped", "deleted", "narrowed", "applied"} {
		create(t, creator{rules}, ruleOf(version, name, driver+"/nowhere", "NoExecute", ""))
		defer rules.Delete(always, name, metav1.DeleteOptions{})
	}
	applied := string(marshal(t, ruleOf(version, "applied", driver+"/nowhere", "NoExecute", "")))
	kubectl(t, applied, "apply", "--server-side", "--force-conflicts", "-f", "-")
	kubectl(t, applied, "apply", "-f", "-")
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	patch := func(name, with string) error {
		_, err := rules.Patch(t.Context(), name, types.MergePatchType, []byte(with), metav1.PatchOptions{})
		return err
	}
	for what, err := range map[string]error{
		"NoExecute to None": patch("stopped", `{"spec":{"taint":{"effect":"`+preview()+`"}}}`),
		"narrowed":          patch("narrowed", `{"spec":{"deviceSelector":{"device":"gpu-a"}}}`),
		"delete":            rules.Delete(t.Context(), "deleted", metav1.DeleteOptions{}),
		"None is created": func() error {
			_, err := rules.Create(t.Context(), ruleOf(version, "new", rack, preview(), ""), notStored)
			return err
		}(),
		"cordon is created": func() error {
			_, err := rules.Create(t.Context(), ruleOf(version, "new", rack, "NoSchedule", ""), notStored)
			return err
		}(),
		"label of a running":  patch("applied", `{"metadata":{"labels":{"a":"b"}}}`),
		"annotation, running": patch("applied", `{"metadata":{"annotations":{"`+acknowledged+`":"pods<=1"}}}`),
	} {
		if err != nil {
			t.Errorf("%s while the webhook does not answer: %v", what, err)
		}
	}
	kubectl(t, applied, "apply", "--server-side", "--force-conflicts", "-f", "-")
	kubectl(t, applied, "apply", "-f", "-")
	_, err := rules.Create(t.Context(), ruleOf(version, "new", rack+"/gpu-h", "NoExecute", ""), notStored)
	wantDenied(t, err, `failed calling webhook "taintrules.guard.dra-steward.io"`)
	wantDenied(t, patch("stopped", `{"spec":{"taint":{"effect":"NoExecute"}}}`), "failed calling webhook")
	wantDenied(t, patch("narrowed", `{"spec":{"deviceSelector":{"device":null,"pool":null}}}`), "failed calling webhook")
}

// creator is what create calls.
type creator struct{ dynamic.ResourceInterface }

func (c creator) Create(ctx context.Context, object *unstructured.Unstructured, o metav1.CreateOptions) (*unstructured.Unstructured, error) {
	return c.ResourceInterface.Create(ctx, object, o)
}

var guardAnswers = regexp.MustCompile(`(?m)^dra_steward_admission_answers_total\{endpoint="guard".*$`)

// sentNothing holds what is done to not asking the guard.
func sentNothing(t *testing.T, g *guard.Guard, do func()) {
	t.Helper()
	count := func() string {
		text, err := g.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(guardAnswers.FindAllString(text, -1), "\n")
	}
	before := count()
	do()
	if after := count(); after != before {
		t.Errorf("the guard was asked:\n%s\nbefore:\n%s", after, before)
	}
}
