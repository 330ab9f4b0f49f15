package installed

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const (
	crowded = 10_000 // claims, with a pod each
	teams   = 100    // namespaces, with a PodDisruptionBudget each
)

// TestMemoryWithPods measures what webhooks and controller hold with 10,000 claims and pods, and how
// long an API server waits for the guard to refuse a rule on all of them.
func TestMemoryWithPods(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("10,000 claims and pods take minutes; make test-long runs it")
	}
	_, clients := install(t, nil)
	measure(t, "without a claim")
	start := time.Now()
	crowd(t)
	t.Logf("%d claims and pods stored in %v", crowded, time.Since(start).Round(time.Second))
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "everything"}}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new(driver)}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
	counted := fmt.Sprintf("pods<=%d,namespaces<=%d", crowded, teams)
	refused := func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		_, err := clients.ResourceV1().DeviceTaintRules().Create(ctx, rule, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		took := time.Since(start)
		if err == nil || !strings.Contains(err.Error(), counted) {
			return took, fmt.Errorf("want a refusal that says %q: %v", counted, err)
		}
		return took, nil
	}
	eventually(t, "the guard knows of all", func(context.Context) error {
		_, err := refused(t.Context()) // of which the last answer is what there is to say
		return err
	})
	var took []time.Duration
	for range 100 {
		one, err := refused(t.Context())
		must(t, err)
		took = append(took, one)
	}
	slices.Sort(took)
	t.Logf("a rule on all %d pods is refused after %v (p50), %v (p99)", crowded, took[50].Round(time.Millisecond), took[98].Round(time.Millisecond))
	measure(t, fmt.Sprintf("with %d claims and pods", crowded))
}

// crowd makes namespaces with claims that are allocated, and a pod for each.
func crowd(t *testing.T) {
	t.Helper()
	config := cluster.Config()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	always := context.WithoutCancel(t.Context())
	for i := range teams {
		team := fmt.Sprintf("team-%02d", i)
		_, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = clients.CoreV1().Pods(team).DeleteCollection(always, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
			_ = clients.ResourceV1().ResourceClaims(team).DeleteCollection(always, metav1.DeleteOptions{}, metav1.ListOptions{})
		})
		_, err = clients.PolicyV1().PodDisruptionBudgets(team).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "trainer"},
			Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "trainer"}}}}, metav1.CreateOptions{})
		must(t, err)
	}
	must(t, each(t.Context(), crowded, func(ctx context.Context, i int) error { return train(ctx, clients, i) }))
}

// each calls make for the numbers below n, 16 at a time, until one fails.
func each(ctx context.Context, n int, make func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return make(ctx, i) })
	}
	return group.Wait()
}

// train makes a pod with a claim that a device is allocated to. It is on a node that there
// is, where else the controller manager would take it away. The claim has the finalizer of an allocation:
// a busy machine may admit it without the defaults.
func train(ctx context.Context, clients kubernetes.Interface, i int) error {
	team, name, pool := fmt.Sprintf("team-%02d", i%teams), fmt.Sprintf("trainer-%05d", i), fmt.Sprintf("node-%05d", i/8)
	pod, err := clients.CoreV1().Pods(team).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "trainer"}},
		Spec: corev1.PodSpec{NodeName: "node-1", AutomountServiceAccountToken: new(false),
			Containers:     []corev1.Container{{Name: "trainer", Image: "example.com/trainer", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{resourceapi.Finalizer}}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: driver}}}
	var stored *resourceapi.ResourceClaim
	err = unlessBusy(func() (err error) {
		stored, err = clients.ResourceV1().ResourceClaims(team).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	stored.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
	stored.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: pool, Device: fmt.Sprint("gpu-", i%8)}}}}
	return unlessBusy(func() error {
		_, err := clients.ResourceV1().ResourceClaims(team).UpdateStatus(ctx, stored, metav1.UpdateOptions{})
		return err
	})
}

// unlessBusy writes again what the webhooks refuse because they are busy, as a controller would.
func unlessBusy(write func() error) error {
	return retry.OnError(wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Steps: 20, Cap: 5 * time.Second}, apierrors.IsTooManyRequests, write)
}
