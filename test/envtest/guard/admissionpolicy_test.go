package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/admissionpolicy"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/test/envtest/internal/deployed"
)

// queued is a namespace with the label of a queue.
const queued = "queued"

// overridden is a namespace in which some policies are off.
const overridden = "overridden"

// compared is how many generated objects the API server and we both judge.
const compared = 500

// TestExportedPoliciesAgree gives what is exported to the API server, without a webhook,
// and holds what it says of generated objects against what we say.
func TestExportedPoliciesAgree(t *testing.T) {
	if version.MustParse(cluster.Version()).LessThan(version.MustParse("1.37.0")) {
		t.Skip("taint rules of v1 came with Kubernetes 1.37, and tolerations are on by default since 1.36")
	}
	engine, exported := exportAll(t)
	config := cluster.Config()
	seen := &warnings{}
	config.WarningHandler = seen
	c := client(t, config)
	namespaceObject := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: queued, Labels: queuedLabels()}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), namespaceObject, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	install(t, c, exported, admissionv1.Warn)
	admin, err := ctrlclient.New(cluster.Config(), ctrlclient.Options{})
	if err == nil {
		err = deployed.PoliciesInForce(t.Context(), admin, "created-last")
	}
	if err != nil {
		t.Fatal(err)
	}

	r := rand.New(rand.NewPCG(1, 2))
	said := map[string]int{}
	for i := range compared {
		object, old := generated(r, i)
		want := ours(engine, object, old)
		got := theirs(t, c, seen, object, old)
		if !slices.Equal(got, want) {
			text, _ := json.Marshal([]any{object, old})
			t.Errorf("object %d: the API server says %v, we say %v\n%s", i, got, want, text)
		}
		for _, code := range want {
			said[code]++
		}
	}
	for _, one := range exported.Policies {
		if code := one.Labels["dra-steward.io/policy-code"]; said[code] < 5 || said[code] > compared*9/10 {
			t.Errorf("%s was violated by %d of %d objects: that shows nothing", code, said[code], compared)
		}
	}
}

// TestExportedPoliciesAreBounded: the API server answers at once for claims with lists that it
// accepts only since it checks them late, or not at all. It took 34 seconds for 100,000
// tolerations, until the request timed out.
func TestExportedPoliciesAreBounded(t *testing.T) {
	if version.MustParse(cluster.Version()).LessThan(version.MustParse("1.36.0")) {
		t.Skip("tolerations are on by default since Kubernetes 1.36; before, the API server drops them")
	}
	_, exported := exportAll(t)
	c := client(t, cluster.Config())
	install(t, c, exported, admissionv1.Deny)
	ask := func(change func(*resourceapi.DeviceClaim)) (time.Duration, error) {
		probe := claim("costly")
		change(&probe.Spec.Devices)
		begin := time.Now()
		_, err := c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return time.Since(begin), err
	}
	request := claim("costly").Spec.Devices.Requests[0]
	tolerations := func(n int) func(*resourceapi.DeviceClaim) {
		return func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly.Tolerations = slices.Repeat([]resourceapi.DeviceToleration{{Key: "example.com/a", Operator: resourceapi.DeviceTolerationOpExists}}, n)
		}
	}
	eventually(t, "the policies are in force", func(context.Context) (bool, error) {
		_, err := ask(tolerations(17))
		return err != nil, nil
	})
	if _, err := ask(func(*resourceapi.DeviceClaim) {}); err != nil {
		t.Errorf("a good claim: %v", err)
	}
	sub := resourceapi.DeviceSubRequest{Name: "a", DeviceClassName: request.Exactly.DeviceClassName}
	selector := resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: "true"}}
	for name, tt := range map[string]struct {
		change func(*resourceapi.DeviceClaim)
		want   string
	}{
		"the most tolerations": {tolerations(512), "denied request"},
		"tolerations":          {tolerations(100000), "there are more than 512 tolerations in all requests"},
		"requests":             {func(d *resourceapi.DeviceClaim) { d.Requests = slices.Repeat(d.Requests, 30000) }, "Too many"},
		"alternatives": {func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly, d.Requests[0].FirstAvailable = nil, slices.Repeat([]resourceapi.DeviceSubRequest{sub}, 30000)
		}, "Too many"},
		"selectors": {func(d *resourceapi.DeviceClaim) {
			d.Requests[0].Exactly.Selectors = slices.Repeat([]resourceapi.DeviceSelector{selector}, 30000)
		}, "Too many"},
	} {
		took, err := ask(tt.change)
		t.Logf("%s: %s", name, took)
		if err == nil || !strings.Contains(err.Error(), tt.want) || took > 5*time.Second {
			t.Errorf("%s: after %s: %.500v, want %s", name, took, err, tt.want)
		}
	}
}

// exportAll exports the whole library with every policy on.
func exportAll(t *testing.T) (*policy.Engine, admissionpolicy.Exported) {
	t.Helper()
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	settings := policy.Settings{Modes: map[string]policy.Mode{}, Parameters: map[string]map[string]any{
		"DRA-TOL-003":   {"allowed": []any{"example.com/*", "gpu.nvidia.com/xid", "a"}},
		"DRA-TOL-005":   {"maxSeconds": json.Number("600")},
		"DRA-TOL-007":   {"max": json.Number("3")},
		"DRA-CLAIM-001": {"groups": []any{}},
		"DRA-TOL-002":   {"groups": []any{}, "namespaces": []any{queued}},
		"DRA-CLAIM-003": {"classes": map[string]any{"large.example.com": json.Number("2"), "gpu.example.com": json.Number("5")}},
		"DRA-RULE-007":  {"ticket": true},
		"DRA-CLAIM-004": {"allowed": []any{"gpu.example.com", "large.example.com"}},
	}}
	for _, m := range set.Policies() {
		settings.Modes[m.Code] = policy.Deny
	}
	settings.Namespaces = []policy.Override{{Names: []string{overridden}, Modes: map[string]policy.Mode{"DRA-RULE-003": policy.Off, "DRA-CLAIM-003": policy.Off}}}
	engine, err := policy.NewEngine(set, settings)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := admissionpolicy.Export(admissionpolicy.Options{
		Engine: engine, Sources: []policy.Collection{policy.Library()}, Now: time.Now(), Overridden: []string{overridden},
		Exemptions: []v1alpha1.Exemption{{Rules: []string{"DRA-RULE-002"}, Users: []string{"admin"}, Namespaces: []string{overridden}, Reason: "migration", Expires: metav1.NewTime(time.Now().Add(time.Hour))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return engine, exported
}

func install(t *testing.T, c kubernetes.Interface, exported admissionpolicy.Exported, action admissionv1.ValidationAction) {
	t.Helper()
	api := c.AdmissionregistrationV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		everything := metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=dra-steward"}
		api.ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, everything)
		api.ValidatingAdmissionPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, everything)
	})
	for i := range exported.Policies {
		if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &exported.Policies[i], metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
			t.Fatal(err)
		}
		exported.Bindings[i].Spec.ValidationActions = []admissionv1.ValidationAction{action}
		if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), &exported.Bindings[i], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

var codePattern = regexp.MustCompile(`\(dra-steward policy (DRA-[A-Z]+-[0-9]+)\)`)

func codesIn(text string) (codes []string) {
	for _, match := range codePattern.FindAllStringSubmatch(text, -1) {
		codes = append(codes, match[1])
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// ours leaves out what cannot be exported.
func ours(engine *policy.Engine, object, old metav1.Object) (codes []string) {
	request := policy.Request{Name: object.GetName(), Namespace: object.GetNamespace(), User: "admin", Now: time.Now(), Object: object, ClusterData: labels{}}
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		request.Kind = "ResourceClaim"
	case *resourceapi.ResourceClaimTemplate:
		request.Kind = "ResourceClaimTemplate"
	case *resourceapi.DeviceTaintRule:
		request.Kind = "DeviceTaintRule"
		if old != nil {
			request.Old = old
		}
		_ = object
	}
	if rule, is := object.(*resourceapi.DeviceTaintRule); is && old != nil && apiequality.Semantic.DeepEqual(rule.Spec, old.(*resourceapi.DeviceTaintRule).Spec) {
		return nil // neither is asked
	}
	for _, v := range engine.Evaluate(context.Background(), request).Violations {
		// Where a stored rule has no owner, the webhook warns, and what is exported does not.
		if v.Code != "DRA-RULE-005" && !(v.Code == "DRA-RULE-007" && v.Stored) {
			codes = append(codes, v.Code)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func queuedLabels() map[string]string {
	return map[string]string{"kueue-managed": "true", resourceapi.DRAAdminNamespaceLabelKey: "true"}
}

// labels are those of the namespaces of this test; of taints nothing is known.
type labels struct{}

func (labels) NamespaceLabels(name string) map[string]string {
	if name == queued {
		return queuedLabels()
	}
	return map[string]string{}
}

func (labels) TaintKey(string) (known, sure bool) { return false, false }

// theirs writes object, over old if there is one, and returns what the API server warns
// about.
func theirs(t *testing.T, c kubernetes.Interface, seen *warnings, object, old metav1.Object) []string {
	t.Helper()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	var err error
	seen.take()
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		_, err = c.ResourceV1().ResourceClaims(object.Namespace).Create(t.Context(), object, dry)
	case *resourceapi.ResourceClaimTemplate:
		_, err = c.ResourceV1().ResourceClaimTemplates(object.Namespace).Create(t.Context(), object, dry)
	case *resourceapi.DeviceTaintRule:
		if old == nil {
			_, err = c.ResourceV1().DeviceTaintRules().Create(t.Context(), object, dry)
			break
		}
		return overwrite(t, c, seen, object, old.(*resourceapi.DeviceTaintRule))
	}
	if err != nil {
		t.Fatalf("%T %s: %v", object, object.GetName(), err)
	}
	return codesIn(seen.take())
}

func overwrite(t *testing.T, c kubernetes.Interface, seen *warnings, rule, old *resourceapi.DeviceTaintRule) []string {
	t.Helper()
	rules := c.ResourceV1().DeviceTaintRules()
	stored, err := rules.Create(t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Delete(t.Context(), old.Name, metav1.DeleteOptions{})
	rule = rule.DeepCopy()
	rule.ResourceVersion = stored.ResourceVersion
	// kube-controller-manager may write the status in between.
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		seen.take()
		_, err := rules.Update(t.Context(), rule, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsConflict(err) {
			stored, get := rules.Get(t.Context(), rule.Name, metav1.GetOptions{})
			if get != nil {
				return get
			}
			rule.ResourceVersion = stored.ResourceVersion
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return codesIn(seen.take())
}

func any1[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// generated makes an object that the API server accepts, and what it replaces or nil.
func generated(r *rand.Rand, i int) (object, old metav1.Object) {
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("generated-%d", i), Namespace: any1(r, namespace, queued)}
	switch r.IntN(4) {
	case 0:
		return &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: generatedSpec(r, meta.Namespace == queued)}, nil
	case 1:
		return &resourceapi.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: generatedSpec(r, meta.Namespace == queued)}}, nil
	default:
		meta.Namespace, meta.Annotations = "", generatedNotes(r)
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: meta, Spec: generatedRule(r)}
		if r.IntN(2) == 0 {
			return rule, nil
		}
		before := &resourceapi.DeviceTaintRule{ObjectMeta: meta, Spec: generatedRule(r)}
		return rule, before
	}
}

// generatedNotes are annotations of a taint rule.
func generatedNotes(r *rand.Rand) map[string]string {
	notes := any1(r, nil, map[string]string{}, map[string]string{"example.com/a": "b"})
	for _, name := range []string{v1alpha1.OwnerAnnotation, v1alpha1.ReasonAnnotation, v1alpha1.TicketAnnotation} {
		if value := any1(r, "x", "x", "x", "", " \t"); notes != nil && r.IntN(4) > 0 {
			notes[name] = value
		}
	}
	return notes
}

func generatedRule(r *rand.Rand) resourceapi.DeviceTaintRuleSpec {
	name := func(name string) *string { return any1(r, nil, nil, &name) }
	spec := resourceapi.DeviceTaintRuleSpec{Taint: resourceapi.DeviceTaint{
		Key: any1(r, "example.com/a", "gpu.nvidia.com/xid", "x.kubernetes.io/y"), Value: any1(r, "", "x"),
		Effect: any1(r, resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute),
	}}
	if r.IntN(4) > 0 {
		spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: name("gpu.example.com"), Pool: name("node-1"), Device: name("gpu-0")}
	}
	return spec
}

func generatedSpec(r *rand.Rand, admin bool) (spec resourceapi.ResourceClaimSpec) {
	for i := range 1 + r.IntN(2) {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("request-%d", i)}
		mode, count := any1(r, resourceapi.DeviceAllocationModeExactCount, resourceapi.DeviceAllocationModeExactCount, resourceapi.DeviceAllocationModeAll), int64(0)
		if mode == resourceapi.DeviceAllocationModeExactCount {
			count = any1(r, int64(1+r.IntN(4)), int64(1+r.IntN(4)), math.MaxInt64)
		}
		if r.IntN(3) > 0 {
			request.Exactly = &resourceapi.ExactDeviceRequest{
				DeviceClassName: className(r), AllocationMode: mode, Count: count, Selectors: generatedSelectors(r), Tolerations: generatedTolerations(r),
			}
			if admin && r.IntN(3) == 0 {
				request.Exactly.AdminAccess = new(true)
			}
		} else {
			for j := range 1 + r.IntN(2) {
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
					Name: fmt.Sprintf("alternative-%d", j), DeviceClassName: className(r), AllocationMode: mode, Count: count,
					Selectors: generatedSelectors(r), Tolerations: generatedTolerations(r),
				})
			}
		}
		spec.Devices.Requests = append(spec.Devices.Requests, request)
	}
	return spec
}

func className(r *rand.Rand) string {
	return any1(r, "gpu.example.com", "gpu.example.com", "large.example.com", "other.example.com")
}

func generatedSelectors(r *rand.Rand) []resourceapi.DeviceSelector {
	expression := any1(r, "", "", "true", " false ", "device.driver == 'gpu.example.com'")
	if expression == "" {
		return nil
	}
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

func generatedTolerations(r *rand.Rand) (list []resourceapi.DeviceToleration) {
	for range any1(r, 0, 0, 1, 1, 2, 4, 17) {
		list = append(list, resourceapi.DeviceToleration{
			Key:               any1(r, "", "example.com/a", "gpu.nvidia.com/xid", "other.example.com/b"),
			Operator:          any1(r, "", resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists),
			Effect:            any1(r, "", resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute),
			TolerationSeconds: any1(r, nil, nil, new(int64(-1)), new(int64(60)), new(int64(700))),
		})
	}
	return list
}

// TestExportedFinalizer: without a webhook a new claim gets the finalizer, beside those it
// has, and no other object does.
func TestExportedFinalizer(t *testing.T) {
	if version.MustParse(cluster.Version()).LessThan(version.MustParse("1.36.0")) {
		t.Skip("MutatingAdmissionPolicies of v1 came with Kubernetes 1.36")
	}
	c := client(t, cluster.Config())
	api := c.AdmissionregistrationV1()
	policies, bindings, _ := admissionpolicy.ExportDefaults(admissionpolicy.Options{}, v1alpha1.Defaults{})
	for i := range policies {
		name := policies[i].Name
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			api.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})
			api.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})
		})
		if _, err := api.MutatingAdmissionPolicies().Create(t.Context(), &policies[i], metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.MutatingAdmissionPolicyBindings().Create(t.Context(), &bindings[i], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers := func(has ...string) []string {
		probe := claim("probe")
		probe.Finalizers = has
		created, err := c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		return created.Finalizers
	}
	eventually(t, "a new claim gets the finalizer", func(context.Context) (bool, error) {
		return slices.Equal(finalizers(), []string{resourceapi.Finalizer}), nil
	})
	other := "example.com/other"
	if got, want := finalizers(other), []string{other, resourceapi.Finalizer}; !slices.Equal(got, want) {
		t.Errorf("finalizers %v, want %v", got, want)
	}
	if got, want := finalizers(resourceapi.Finalizer), []string{resourceapi.Finalizer}; !slices.Equal(got, want) {
		t.Errorf("finalizers %v, want %v", got, want)
	}
}
