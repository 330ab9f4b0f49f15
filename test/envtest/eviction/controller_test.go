package eviction_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

const (
	driver    = "gpu.example.com"
	namespace = metav1.NamespaceDefault
	ours      = controller.User

	auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`
)

// alone switches the controller of Kubernetes off.
var alone = map[string][]string{"controllers": {"*,-device-taint-eviction-controller"}}

// A world is a cluster, its administrator and the version of its DeviceTaintRules.
type world struct {
	kubernetes.Interface
	*envtest.Cluster
	rules dynamic.ResourceInterface
}

// options are those of a cluster that serves DeviceTaintRules.
func options(t *testing.T, minor string, nodes ...string) envtest.Options {
	o := envtest.Options{
		Kubernetes: minor, ControllerManager: true, Scheduler: true, Nodes: nodes, AuditPolicy: auditPolicy,
		DeviceTaintRules: true, Dir: t.TempDir(), Output: t.Output(),
	}
	if strings.HasPrefix(cmp.Or(minor, os.Getenv(assets.VersionVariable)), "1.35") {
		o.FeatureGates = map[string]bool{"DRAExtendedResource": true}
	}
	return o
}

func start(t *testing.T, o envtest.Options) *world {
	t.Helper()
	if strings.HasPrefix(cmp.Or(o.Kubernetes, os.Getenv(assets.VersionVariable)), "1.34") {
		t.Skip("a DeviceTaintRule of Kubernetes 1.34 has no status and no effect None")
	}
	cluster, err := envtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := cluster.Config()
	return &world{
		Interface: kubernetes.NewForConfigOrDie(config), Cluster: cluster,
		rules: dynamic.NewForConfigOrDie(config).Resource(cluster.DeviceTaintRules()),
	}
}

// rule reads a rule, whatever the version.
func (w *world) rule(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error) {
	object, err := w.rules.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	rule := &resourceapi.DeviceTaintRule{}
	return rule, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, rule)
}

// run starts the program as the chart's Deployment does, and returns how to end it.
func run(t *testing.T, cluster *envtest.Cluster, values map[string]any) (stop func()) {
	t.Helper()
	args := must(controller.Install(t.Context(), cluster, map[string]any{"controller": values}))(t)
	c := must(controller.Start(t.Context(), args))(t)
	return sync.OnceFunc(func() {
		if err := c.Stop(); err != nil || t.Failed() {
			t.Errorf("%v; its log:\n%s", err, c.Log())
		}
	})
}

func eventually(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// must is for what has no reason to fail.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// offer publishes n devices, a class for them and for an extended resource, and a
// template of a claim.
func offer(t *testing.T, c kubernetes.Interface, n int) {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}
	class.Spec.ExtendedResourceName = new("example.com/gpu")
	must(c.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	slice.Spec.Driver, slice.Spec.NodeName = driver, new("node-0")
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "node-0", Generation: 1, ResourceSliceCount: 1}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	must(c.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}))(t)
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver}}}
	must(c.ResourceV1().ResourceClaimTemplates(namespace).Create(t.Context(), template, metav1.CreateOptions{}))(t)
}

// pods creates n pods, with claims or with extended resources, and waits until they run.
func pods(t *testing.T, c kubernetes.Interface, prefix string, n int, extended bool) (names []string) {
	t.Helper()
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
		if extended {
			one := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		} else {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
			pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		}
		must(c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		names = append(names, pod.Name)
	}
	(&world{Interface: c}).run(t, names)
	return names
}

// run waits until the pods run.
func (w *world) run(t *testing.T, names []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q run", names), func(ctx context.Context) (bool, error) {
		list, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		running := 0
		for i := range list.Items {
			if slices.Contains(names, list.Items[i].Name) {
				running++
			}
		}
		return running == len(names), err
	})
}

// taint creates a rule for all devices of the driver; that this is more than the
// thresholds allow has to be acknowledged.
func (w *world) taint(t *testing.T, name string, effect resourceapi.DeviceTaintEffect, acknowledge string) {
	t.Helper()
	metadata := map[string]any{"name": name}
	if acknowledge != "" {
		metadata["annotations"] = map[string]any{v1alpha1.AcknowledgementAnnotation: acknowledge}
	}
	must(w.rules.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule", "metadata": metadata,
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": driver},
			"taint":          map[string]any{"key": "example.com/broken", "effect": string(effect)},
		},
	}}, metav1.CreateOptions{}))(t)
}

// effect changes that of a rule.
func (w *world) effect(t *testing.T, name string, effect resourceapi.DeviceTaintEffect) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"taint":{"effect":%q}}}`, effect)
	must(w.rules.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func gone(t *testing.T, c kubernetes.Interface, names []string) {
	t.Helper()
	eventually(t, "the pods are gone", func(ctx context.Context) (bool, error) {
		list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		for i := range list.Items {
			if slices.Contains(names, list.Items[i].Name) {
				return false, err
			}
		}
		return true, err
	})
}

// condition waits until a rule has a condition with that message.
func (w *world) condition(t *testing.T, name, kind, want string) {
	t.Helper()
	last := "none"
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		r, err := w.rule(ctx, name)
		if err != nil {
			return false, nil
		}
		for _, condition := range r.Status.Conditions {
			if condition.Type == kind {
				last = string(condition.Status) + " " + condition.Reason + " " + condition.Message
			}
		}
		return strings.TrimSpace(last) == want, nil
	})
	if err != nil {
		t.Errorf("rule %s, condition %s: %s\nwant: %s", name, kind, last, want)
	}
}

// An entry is a line of the audit log.
type entry struct {
	Verb, UserAgent string
	User            struct{ Username string }
	ObjectRef       struct{ Resource, Subresource, Name string }
	ResponseStatus  struct{ Code int }
}

func audit(t *testing.T, cluster *envtest.Cluster) (all []entry) {
	t.Helper()
	for _, e := range testaudit.Entries[entry](t, cluster.AuditLog(), 0) {
		all = append(all, *e)
	}
	return all
}

// evictions counts the deletions of each pod that the API server has accepted, kubelets
// aside, by who asked.
func evictions(t *testing.T, cluster *envtest.Cluster) map[string][]string {
	t.Helper()
	return deletions(t, cluster, func(code int) bool { return code < 300 })
}

// deletions counts the deletions of each pod with some status codes, kubelets aside, by who asked.
func deletions(t *testing.T, cluster *envtest.Cluster, counts func(code int) bool) map[string][]string {
	t.Helper()
	by := map[string][]string{}
	for _, e := range audit(t, cluster) {
		if e.Verb == "delete" && e.ObjectRef.Resource == "pods" && counts(e.ResponseStatus.Code) && !strings.HasPrefix(e.UserAgent, "dra-steward-nodes") {
			by[e.ObjectRef.Name] = append(by[e.ObjectRef.Name], e.User.Username)
		}
	}
	return by
}

// evictionsOf are those once they have the pods, which are gone: the API server writes its audit
// log after its answer. To a controller that ends while it asks, the API server answers with an error, also where it
// has deleted the pod.
func evictionsOf(t *testing.T, cluster *envtest.Cluster, pods []string) (by map[string][]string) {
	t.Helper()
	eventually(t, "the audit log has all evictions", func(context.Context) (bool, error) {
		by = evictions(t, cluster)
		unanswered := deletions(t, cluster, func(code int) bool { return code >= 500 })
		for _, name := range pods {
			if len(by[name]) == 0 && len(unanswered[name]) > 0 {
				by[name] = unanswered[name][:1]
			}
		}
		return !slices.ContainsFunc(pods, func(name string) bool { return len(by[name]) == 0 }), nil
	})
	return by
}

// writes are what the controller has changed, without Leases and its own ConfigMaps: the state of
// the policies and the history of devices.
func writes(t *testing.T, cluster *envtest.Cluster) (all []string) {
	t.Helper()
	for _, e := range audit(t, cluster) {
		own := e.ObjectRef.Resource == "leases" || e.ObjectRef.Name == "dra-steward-policies" || strings.HasPrefix(e.ObjectRef.Name, "dra-steward-controller-history-")
		if e.User.Username == ours && !slices.Contains([]string{"get", "list", "watch"}, e.Verb) && !own {
			all = append(all, strings.Join([]string{e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name}, " "))
		}
	}
	return all
}

// TestBesideKubernetes: kube-controller-manager evicts for rules and misses the pods on
// extended resources. Observing writes nothing; supplementing evicts what it misses, a
// taint that was there before excepted, and none twice.
func TestBesideKubernetes(t *testing.T) {
	c := start(t, options(t, "", "node-0"))
	offer(t, c, 8)
	missed := pods(t, c, "missed", 3, true)
	plain := pods(t, c, "plain", 3, false)

	stop := run(t, c.Cluster, map[string]any{})
	c.taint(t, "before", resourceapi.DeviceTaintEffectNoExecute, "")
	gone(t, c, plain)
	stop()
	if got := writes(t, c.Cluster); len(got) > 0 {
		t.Errorf("observing wrote %q", got)
	}

	stop = run(t, c.Cluster, map[string]any{"mode": "supplement"})
	defer stop()
	c.condition(t, "before", "dra-steward.io/EvictionInProgress", "False NotStarted")
	if got := evictionsOf(t, c.Cluster, plain); len(got) != len(plain) {
		t.Errorf("installing evicted: %v", got)
	}
	if err := c.rules.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	more := pods(t, c, "more", 3, false)
	history := c.watch(t)
	begin := time.Now()
	c.taint(t, "now", resourceapi.DeviceTaintEffectNoExecute, "pods<=6")
	gone(t, c, append(more, missed...))
	if took := time.Since(begin); took < 14*time.Second {
		t.Errorf("the other controller had only %s", took)
	}
	c.condition(t, "now", "dra-steward.io/EvictionInProgress", "False Completed 3 pods evicted.")
	by := evictionsOf(t, c.Cluster, slices.Concat(plain, more, missed))
	for _, name := range missed {
		if !slices.Equal(by[name], []string{ours}) {
			t.Errorf("%s was deleted by %q", name, by[name])
		}
	}
	for _, name := range append(plain, more...) {
		if len(by[name]) != 1 || by[name][0] == ours {
			t.Errorf("%s was deleted by %q", name, by[name])
		}
	}
	eventually(t, "kube-controller-manager says that it is done", func(ctx context.Context) (bool, error) {
		r, err := c.rule(ctx, "now")
		return err == nil && slices.ContainsFunc(r.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == resourceapi.DeviceTaintConditionEvictionInProgress && c.Reason == "Completed"
		}), err
	})
	history.expectNoFlips(t)
	r := must(c.rule(t.Context(), "now"))(t)
	for _, fields := range r.ManagedFields {
		if fields.Manager == "dra-steward-evictor" && strings.Contains(fields.FieldsV1.GetRawString(), `"type":"EvictionInProgress"`) {
			t.Errorf("it wrote the condition of kube-controller-manager: %s", fields.FieldsV1.GetRawString())
		}
	}
}

// A history is what the conditions of rules have been, as a watch shows it.
type history struct {
	mutex sync.Mutex
	// states are status and reason of each type, one for each change.
	states map[string][]string
}

// watch begins a history.
func (w *world) watch(t *testing.T) *history {
	t.Helper()
	events := must(w.rules.Watch(t.Context(), metav1.ListOptions{}))(t)
	t.Cleanup(events.Stop)
	h := &history{states: map[string][]string{}}
	go func() {
		for event := range events.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				h.add(object)
			}
		}
	}()
	return h
}

func (h *history) add(rule *unstructured.Unstructured) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	conditions, _, _ := unstructured.NestedSlice(rule.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		of := fmt.Sprint(rule.GetName(), " ", condition["type"])
		state := fmt.Sprint(condition["status"], " ", condition["reason"])
		if known := h.states[of]; len(known) == 0 || known[len(known)-1] != state {
			h.states[of] = append(known, state)
		}
	}
}

// expectNoFlips fails if a condition came back to what it had been.
func (h *history) expectNoFlips(t *testing.T) {
	t.Helper()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.states) < 2 {
		t.Errorf("the watch showed %v", h.states)
	}
	for of, states := range h.states {
		sorted := slices.Sorted(slices.Values(states))
		if len(slices.Compact(sorted)) != len(states) {
			t.Errorf("%s: %q", of, states)
		}
	}
}

// TestAlone: without the other controller, full does it all, for pods with claims, with
// extended resources and with the claim of their PodGroup: the preview while the effect is
// None, the evictions, the report; ended midway and started again, nothing is
// lost and nothing done twice.
func TestAlone(t *testing.T) {
	o := options(t, "", "node-0")
	o.ControllerManagerArgs = alone
	groups := strings.HasPrefix(cmp.Or(os.Getenv(assets.VersionVariable), assets.DefaultVersion), "1.37")
	if groups {
		allowGroups(&o)
	}
	c := start(t, o)
	const devices = 40
	offer(t, c, devices)
	all := append(pods(t, c, "plain", devices-6, false), pods(t, c, "extended", 5, true)...)
	if groups {
		all = append(all, c.group(t, "gang", 4)...)
	} else {
		all = append(all, pods(t, c, "single", 1, false)...)
	}
	n := len(all)

	values := map[string]any{"mode": "full", "evictionsPerSecond": 5}
	stop := run(t, c.Cluster, values)
	started := time.Now()
	eventually(t, "the second of the start is over", func(context.Context) (bool, error) { return time.Since(started) > 2*time.Second, nil })
	c.taint(t, "rule", resourceapi.DeviceTaintEffectNone, fmt.Sprint("pods<=", n))
	c.condition(t, "rule", "EvictionInProgress", fmt.Sprintf("False NoEffect %d published devices selected. %d allocated devices selected. %d pods would be evicted in 1 namespace if the effect was NoExecute.", devices, devices, n))
	c.effect(t, "rule", resourceapi.DeviceTaintEffectNoExecute)
	eventually(t, "some are evicted", func(context.Context) (bool, error) { return len(evictions(t, c.Cluster)) >= 10, nil })
	stop()
	if got := len(evictions(t, c.Cluster)); got == n {
		t.Errorf("all were evicted before it was ended")
	}
	stop = run(t, c.Cluster, values)
	defer stop()
	gone(t, c, all)
	by := evictionsOf(t, c.Cluster, all)
	for _, name := range all {
		if !slices.Equal(by[name], []string{ours}) {
			t.Errorf("%s was deleted by %q", name, by[name])
		}
	}
	eventually(t, "the rule is done", func(ctx context.Context) (bool, error) {
		r, err := c.rule(ctx, "rule")
		if err != nil {
			return false, err
		}
		progress := meta.FindStatusCondition(r.Status.Conditions, resourceapi.DeviceTaintConditionEvictionInProgress)
		return progress != nil && progress.Reason == "Completed", nil
	})
	patches := 0
	for _, write := range writes(t, c.Cluster) {
		if strings.HasPrefix(write, "patch pods status") {
			patches++
		}
	}
	// A controller that was ended between the condition and the deletion of a pod writes the
	// condition again.
	if patches < n || patches > n+1 {
		t.Errorf("%d conditions for %d pods", patches, n)
	}
}
