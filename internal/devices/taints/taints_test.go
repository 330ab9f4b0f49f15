package taints_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestResolve: a name in full, its end where only one fits, and all candidates where more
// do.
func TestResolve(t *testing.T) {
	devices := []usage.DeviceID{
		{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}, {Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1"},
		{Driver: "gpu.example.com", Pool: "node-2", Device: "gpu-0"}, {Driver: "nic.example.com", Pool: "node-1", Device: "eth-0"},
		{Driver: "a.example.com", Pool: "b", Device: "same"}, {Driver: "same", Pool: "p", Device: "d"},
	}
	for i := range 10 {
		devices = append(devices, usage.DeviceID{Driver: "many.example.com", Pool: "pool-" + string(rune('a'+i)), Device: "all"})
	}
	for name, want := range map[string]string{
		"gpu.example.com/node-1/gpu-0": "gpu.example.com/node-1/gpu-0",
		"node-2/gpu-0":                 "gpu.example.com/node-2/gpu-0",
		"gpu-1":                        "gpu.example.com/node-1/gpu-1",
		"eth-0":                        "nic.example.com/node-1/eth-0",
		"gpu.example.com/node-2":       "gpu.example.com/node-2",
		"gpu.example.com":              "gpu.example.com",
		"same":                         "same", // a driver in full comes before the end of a device
		"gpu-0":                        `"gpu-0" matches 2 devices: name one of gpu.example.com/node-1/gpu-0 or gpu.example.com/node-2/gpu-0`,
		"all":                          "or many.example.com/pool-h/all or 2 more",
		"node-1":                       `no device, pool or driver "node-1"`, // two pools have it, and neither is meant by half a name
		"gpu-9":                        `no device, pool or driver "gpu-9"`,
		"":                             "must be DRIVER",
		"/gpu-0":                       "must be DRIVER",
	} {
		got, err := taints.Resolve(name, slices.Values(devices))
		if text := got.String(); err == nil && text != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v; want %s", name, text, err, want)
		}
	}
}

// TestName: the same for the same target and key, another for every other, and one that
// the API server takes.
func TestName(t *testing.T) {
	seen := map[string]taints.Target{}
	for _, target := range []taints.Target{
		{Driver: "gpu.example.com"}, {Driver: "gpu.example.com", Pool: "node-1"}, {Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"},
		{Driver: "gpu.example.com", Pool: "node-2", Device: "gpu-0"}, {Driver: "gpu.example.com", Pool: "node-1/gpu-0"},
		{Driver: "d", Pool: "p", Device: strings.Repeat("x", 63)}, {Driver: "d", Pool: strings.Repeat("p", 253)}, {Driver: "d", Pool: "___"},
	} {
		name := taints.Name(target, "example.com/broken")
		if other, twice := seen[name]; twice || name != taints.Name(target, "example.com/broken") || name == taints.Name(target, "example.com/other") {
			t.Errorf("%s: %s, which is also that of %s", target, name, other)
		}
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			t.Errorf("%s: %s: %v", target, name, wrong)
		}
		seen[name] = target
	}
}

func TestParseTaint(t *testing.T) {
	for text, want := range map[string]string{
		"example.com/a:NoSchedule":  "example.com/a||NoSchedule",
		"example.com/a=b:NoExecute": "example.com/a|b|NoExecute",
		"example.com/a=b:None":      "example.com/a|b|None",
		"example.com/a":             "needs an effect",
		"example.com/a:noexecute":   "needs an effect",
		":NoExecute":                "needs an effect",
		"=b:NoExecute":              "needs an effect",
	} {
		got, err := taints.ParseTaint(text, false)
		if text := strings.Join([]string{got.Key, got.Value, string(got.Effect)}, "|"); (err == nil) != (text == want) {
			t.Errorf("%s: got %s, %v", text, text, err)
		}
		if err != nil && !strings.Contains(err.Error(), "such as example.com/maintenance:NoSchedule") {
			t.Error(err)
		}
	}
	if got, err := taints.ParseTaint("example.com/a", true); err != nil || got.Key != "example.com/a" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRule(t *testing.T) {
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	intent := taints.Intent{Target: taints.Target{Driver: "gpu.example.com", Pool: "node-1"}, Expires: at, Acknowledged: "pods<=3",
		Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNone}}
	rule := intent.Rule()
	if rule.Annotations[v1alpha1.ExpiresAnnotation] != "2026-03-01T12:00:00Z" || rule.Annotations[v1alpha1.AcknowledgementAnnotation] != "pods<=3" ||
		rule.Spec.DeviceSelector.Device != nil || *rule.Spec.DeviceSelector.Pool != "node-1" || rule.Labels[taints.ManagedBy] != taints.ManagedByTaint {
		t.Errorf("%+v", rule)
	}
	intent.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	if again := intent.Rule(); again.Name != rule.Name {
		t.Errorf("from None to NoExecute the name changes from %s to %s", rule.Name, again.Name)
	}
}

// TestReport: who would have to go, with owner, namespace, node, budget and until when it
// is tolerated; who tolerates it for good; what is above the thresholds.
func TestReport(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	o := taints.Objects{Published: map[string]int{"gpu.example.com": 100}, Thresholds: taints.Thresholds{Thresholds: guard.Thresholds{Pods: 1, Namespaces: 5, Percent: 100}, From: "the test"}}
	add := func(namespace, name, owner, device string, tolerations ...resourceapi.DeviceToleration) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}}}
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, Controller: new(true)}}
		}
		pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("claim-" + name)}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: device, Tolerations: tolerations}}}}
		o.Pods, o.Claims = append(o.Pods, pod), append(o.Claims, claim)
	}
	lasting := func(seconds *int64) resourceapi.DeviceToleration {
		return resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: seconds}
	}
	add("ml", "trainer", "trainer", "gpu-0")
	add("ml", "patient", "", "gpu-1", lasting(new(int64(300))), lasting(new(int64(600))))
	add("web", "for-ever", "", "gpu-2", lasting(nil))
	o.Budgets = []*policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "trainer"}}}}}
	report := taints.NewPodImpact(o, taints.Target{Driver: "gpu.example.com"}.Selector(), resourceapi.DeviceTaint{Key: "example.com/broken"}, now)
	var text bytes.Buffer
	if err := report.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE  POD      OWNER                NODE    DEVICES                       BUDGET  TOLERATED UNTIL
ml         patient  -                    node-1  gpu.example.com/node-1/gpu-1  -       2026-03-01T12:05:00Z
ml         trainer  StatefulSet/trainer  node-1  gpu.example.com/node-1/gpu-0  budget  not tolerated
affects 2 allocated devices and 2 claims, 2 pods in 1 namespace (ml): ml/patient, ml/trainer; and 1 PodDisruptionBudget: ml/budget (1 pod, 0 can be evicted now)
refused by the guard: 2 pods are more than the threshold of 1 (the test); drain the devices instead, or acknowledge the impact with dra-steward.io/acknowledged-impact: "pods<=2,namespaces<=1"
tolerated without limit by 1 more, first web/for-ever
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
}

// TestToleratedUntil: a toleration without seconds has no end, whatever others say of the same
// device; the device whose time ends first counts for the claim.
func TestToleratedUntil(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	lasting := func(seconds *int64) resourceapi.DeviceToleration {
		return resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: seconds}
	}
	result := func(device string, tolerations ...resourceapi.DeviceToleration) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: device, Tolerations: tolerations}
	}
	name := "pair"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Spec.NodeName = "node-1"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("claim")}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		result("gpu-0", lasting(new(int64(60))), lasting(nil)),
		result("gpu-1", lasting(new(int64(600)))),
	}}}
	o := taints.Objects{Pods: []*corev1.Pod{pod}, Claims: []*resourceapi.ResourceClaim{claim}}
	report := taints.NewPodImpact(o, taints.Target{Driver: "gpu.example.com"}.Selector(), resourceapi.DeviceTaint{Key: "example.com/broken"}, now)
	if len(report.Pods) != 1 {
		t.Fatalf("pods are %v, want one", report.Pods)
	}
	if until := report.Pods[0].ToleratedUntil; until == nil || !until.Time.Equal(now.Add(10*time.Minute)) {
		t.Errorf("tolerated until %v, want 10 minutes after %s: the end of gpu-1", until, now)
	}
}

// TestOthers: a taint of the driver, and one of another user's rule, cannot be taken
// back, and each says what can be done.
func TestOthers(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}}
	slice.Spec.Driver, slice.Spec.Pool = "gpu.example.com", resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}}, {Name: "gpu-1"}}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", UID: "rule"}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	view := tracker.Merge(slice, rule)
	problems := taints.Others(view.Devices(), taints.Target{Driver: "gpu.example.com", Pool: "node-1"}, resourceapi.DeviceTaint{Key: "example.com/broken"}, "")
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	all := strings.Join(texts, "\n")
	if len(problems) != 2 || !strings.Contains(all, "the driver gpu.example.com publishes the taint") || !strings.Contains(all, "let the claims tolerate example.com/broken") ||
		!strings.Contains(all, "kubectl delete devicetaintrule by-hand") {
		t.Errorf("%d problems:\n%s", len(problems), all)
	}
	if got := taints.Others(view.Devices(), taints.Target{Driver: "gpu.example.com"}, resourceapi.DeviceTaint{Key: "example.com/broken"}, "by-hand"); len(got) != 1 {
		t.Errorf("beside by-hand: %v", got)
	}
	if got := taints.Others(view.Devices(), taints.Target{Driver: "gpu.example.com", Device: "gpu-1"}, resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}, ""); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestReportGrowsWithThePods: each pod is compared with the budgets of its own namespace. With
// those of all namespaces, the cost of a report grew with the square of the cluster.
func TestReportGrowsWithThePods(t *testing.T) {
	allocations := func(n int) float64 {
		o := taints.Objects{}
		for i := range n {
			namespace := "team-" + strconv.Itoa(i)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train", UID: types.UID(namespace), Labels: map[string]string{"app": "train"}}}
			pod.Spec.NodeName, pod.Spec.ResourceClaims = "node", []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("train")}}
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train", UID: "claim"}}
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: "gpu.example.com", Pool: "node", Device: "gpu-" + strconv.Itoa(i)}}}}
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train"}}
			budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod.Labels}
			o.Pods, o.Claims, o.Budgets = append(o.Pods, pod), append(o.Claims, claim), append(o.Budgets, budget)
		}
		report := taints.NewPodImpact(o, &resourceapi.DeviceTaintSelector{}, resourceapi.DeviceTaint{Key: "k"}, time.Now())
		if len(report.Pods) != n || !slices.Equal(report.Pods[0].Budgets, []string{"train"}) {
			t.Fatalf("%d of %d pods, the first with the budgets %v", len(report.Pods), n, report.Pods[0].Budgets)
		}
		return testing.AllocsPerRun(1, func() {
			taints.NewPodImpact(o, &resourceapi.DeviceTaintSelector{}, resourceapi.DeviceTaint{Key: "k"}, time.Now())
		})
	}
	if few, many := allocations(100), allocations(800); many > 12*few {
		t.Errorf("%.0f allocations for 100 pods, %.0f for 800: more than 12 times as many", few, many)
	}
}
