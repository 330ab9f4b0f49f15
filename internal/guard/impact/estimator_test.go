package impact

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/usage"
	"github.com/dra-steward/dra-steward/policies"
	"github.com/dra-steward/dra-steward/webhook"
)

// guardOf is the handler of the guard with a configuration.
func guardOf(t testing.TB, i *Estimator, c v1alpha1.StewardConfiguration) admission.Handler {
	t.Helper()
	reviewer, err := review.New(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(context.Background(), policy.Collection{Files: policies.Files})
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.GuardPolicies, err = policyload.NewGuardEngine(set, c, 0); err != nil {
		t.Fatal(err)
	}
	reviewer.Impacts = i
	return webhook.Guarding(func() review.Reviewer { return reviewer }, webhook.Options{})
}

// evicting is the request to create a DeviceTaintRule with NoExecute.
func evicting(selector *resourceapi.DeviceTaintSelector, annotations map[string]string) admission.Request {
	rule := resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken", Annotations: annotations}}
	rule.APIVersion, rule.Kind = resourceapi.SchemeGroupVersion.String(), "DeviceTaintRule"
	rule.Spec.DeviceSelector, rule.Spec.Taint = selector, resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
	data, err := json.Marshal(rule)
	if err != nil {
		panic(err)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Name: rule.Name,
		Kind: metav1.GroupVersionKind{Group: resourceapi.GroupName, Version: "v1", Kind: "DeviceTaintRule"}}}
	request.Object.Raw = data
	return request
}

// never is a check of what is never complete.
type never struct{ done chan struct{} }

func (never) Name() string            { return "pods" }
func (n never) Done() <-chan struct{} { return n.done }

// TestGuardBeforeItHasRead: while claims, pods and budgets have not been read the guard
// answers at once, by guard.onError, and what stops an eviction passes. It is not ready for
// a minute, so that others are asked.
func TestGuardBeforeItHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &Estimator{started: time.Now(), synced: []cache.DoneChecker{never{make(chan struct{})}}}
		for _, onError := range []v1alpha1.PolicyMode{"", "deny", "warn"} {
			h := guardOf(t, i, v1alpha1.StewardConfiguration{Guard: v1alpha1.Guard{OnError: onError}})
			start := time.Now()
			got := h.Handle(t.Context(), evicting(&resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}, nil))
			if took := time.Since(start); took > 0 {
				t.Errorf("%q: it waited for %s", onError, took)
			}
			text := strings.Join(got.Warnings, "\n")
			if got.Result != nil {
				text += got.Result.Message
			}
			if got.Allowed != (onError == "warn") || !strings.Contains(text, "not synced yet (pods)") {
				t.Errorf("%q: allowed %v: %s", onError, got.Allowed, text)
			}
			stop := evicting(nil, nil)
			stop.Object.Raw = []byte(strings.Replace(string(stop.Object.Raw), "NoExecute", "None", 1))
			if got := h.Handle(t.Context(), stop); !got.Allowed {
				t.Errorf("%q: %v", onError, got.Result)
			}
		}
		if i.Ready(nil) == nil {
			t.Error("it is ready")
		}
		<-time.After(guardTimeout + time.Second)
		if err := i.Ready(nil); err != nil {
			t.Errorf("everything else waits: %v", err)
		}
	})
}

// crowd is an index of n claims, each with a pod and a device of its own, on nodes of 8
// devices and in 100 namespaces with a budget each.
func crowd(t testing.TB, n int) *Estimator {
	t.Helper()
	i := &Estimator{Index: &usage.Index{}}
	trim := func(object any) any {
		trimmed, err := usage.Trim(object)
		if err != nil {
			t.Fatal(err)
		}
		return trimmed
	}
	var published []*resourceapi.ResourceSlice
	for k := range n {
		node, namespace := fmt.Sprintf("node-%05d", k/8), fmt.Sprintf("team-%02d", k/8%100)
		if k%8 == 0 {
			slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: node}}}
			slice.Spec.Devices = make([]resourceapi.Device, 8)
			published = append(published, slice)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("trainer-%05d", k), UID: types.UID(fmt.Sprintf("7d1f3c55-0000-4000-8000-%012d", k)),
			ResourceVersion: fmt.Sprint(k), Labels: map[string]string{"app": "trainer", "pod-template-hash": "5d9f7c6b8"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("trainer-%02d", k/8%100), UID: "a3f0c2e1-0000-4000-8000-000000000000", Controller: new(true)}}}}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name + "-gpu-x7k2p", UID: types.UID(fmt.Sprintf("c1a1f3c5-0000-4000-8000-%012d", k)), ResourceVersion: fmt.Sprint(k),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}}}
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &claim.Name}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		claim.Status.Allocation = &resourceapi.AllocationResult{AllocationTimestamp: &metav1.Time{Time: time.Unix(int64(k), 0)}, Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: node, Device: fmt.Sprint("gpu-", k%8)}}}}
		i.Index.SetPod(trim(pod).(*corev1.Pod))
		i.Index.SetClaim(trim(claim).(*resourceapi.ResourceClaim))
	}
	for k := range min(n, 100) {
		i.Index.SetBudget(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", k), Name: "trainer"},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "trainer"}}}})
	}
	i.Published = func() iter.Seq[*resourceapi.ResourceSlice] { return slices.Values(published) }
	return i
}

// BenchmarkGuard is how long the guard takes for a rule on one device, on a pool of eight
// and on everything, with 10,000 claims and pods; and what an index of them holds.
//
//	go test ./internal/guard/impact -run '^$' -bench Guard -benchtime 200x
func BenchmarkGuard(b *testing.B) {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	i := crowd(b, n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	h := guardOf(b, i, v1alpha1.StewardConfiguration{})
	driver, pool, device := "gpu.example.com", "node-00007", "gpu-3"
	for _, on := range []struct {
		name     string
		selector resourceapi.DeviceTaintSelector
	}{
		{"device", resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool, Device: &device}},
		{"pool", resourceapi.DeviceTaintSelector{Driver: &driver, Pool: &pool}},
		{"driver", resourceapi.DeviceTaintSelector{Driver: &driver}},
	} {
		b.Run(on.name, func(b *testing.B) {
			request := evicting(&on.selector, nil)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				got := h.Handle(context.Background(), request)
				took = append(took, time.Since(start))
				if got.Allowed != (on.name != "driver") {
					b.Fatalf("allowed %v: %v", got.Allowed, got.Result)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/claim+pod")
		})
	}
	runtime.KeepAlive(i)
}
