package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// A siege is one attack on the thresholds: a driver, a namespace and a replica of its own, and the pods that were evicted.
type siege struct {
	*testing.T
	c       kubernetes.Interface
	rules   dynamic.ResourceInterface
	untyped dynamic.Interface
	// name is that of the namespace, of the pool and of its slice.
	name, driver string
	values       map[string]any
	guard        *guard.Guard
	log          *proc.Log

	mutex sync.Mutex
	// evicted has the time at which each pod began to leave, by UID.
	evicted map[types.UID]time.Time
	// admitted and refused count the writes.
	admitted, refused int
}

// threshold is how many pods are evicted without an acknowledgement.
const threshold = 20

// siegeDevices is how many devices the pool has: a slice with taints can have no more.
const siegeDevices = 64

// newSiege makes a pool of devices, and installs the guard with a threshold of pods.
func newSiege(t *testing.T, number int, window string) *siege {
	t.Helper()
	s := &siege{T: t, name: fmt.Sprintf("siege-%02d", number), driver: fmt.Sprintf("siege-%02d.example.com", number), evicted: map[types.UID]time.Time{}, log: &proc.Log{}}
	s.values = map[string]any{"mode": "enforce", "policies": map[string]any{"modes": map[string]any{"DRA-RULE-003": "warn", "DRA-RULE-005": "warn"}}, "guard": map[string]any{"thresholds": map[string]any{"pods": threshold, "percent": 100}}}
	if window != "" {
		s.values["guard"].(map[string]any)["window"] = window
	}
	config := cluster.Config()
	config.QPS, config.Burst, config.WarningHandler = 500, 500, &warnings{}
	s.c = client(t, config)
	var err error
	if s.untyped, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	s.rules = s.untyped.Resource(cluster.DeviceTaintRules())
	s.install()
	t.Cleanup(func() {
		if err := s.guard.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of dra-steward:\n%s", s.log)
		}
	})
	create(t, s.c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		_ = s.rules.DeleteCollection(always, metav1.DeleteOptions{}, metav1.ListOptions{})
		_ = s.c.ResourceV1().ResourceSlices().Delete(always, s.name, metav1.DeleteOptions{})
		_ = s.c.ResourceV1().DeviceClasses().Delete(always, s.driver, metav1.DeleteOptions{})
		_ = s.c.CoreV1().Namespaces().Delete(always, s.name, metav1.DeleteOptions{})
		_ = s.c.CoreV1().Pods(s.name).DeleteCollection(always, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
	})
	eventually(t, "the namespace is ready for pods", func(ctx context.Context) (bool, error) {
		_, err := s.c.CoreV1().ServiceAccounts(s.name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	create(t, s.c.ResourceV1().DeviceClasses(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: s.driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", s.driver)}}}}})
	create(t, s.c.ResourceV1().ResourceClaimTemplates(s.name), &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: s.claim()}})
	s.publish()
	s.watch()
	return s
}

// install starts the guard, or starts it again with the values.
func (s *siege) install() {
	s.Helper()
	g, err := guard.Start(s.Context(), cluster, guard.Options{Values: s.values, Log: s.log})
	if err != nil {
		s.Fatalf("%v; its log:\n%s", err, s.log)
	}
	s.guard = g
}

// restart ends the guard and starts another process.
func (s *siege) restart() {
	s.Helper()
	if err := s.guard.Stop(); err != nil {
		s.Error(err)
	}
	s.install()
}

func (s *siege) claim(tolerations ...resourceapi.DeviceToleration) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
		Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: s.driver, Tolerations: tolerations}}}}}
}

// slice is the pool with its devices, some of them with a taint of the driver.
func (s *siege) slice(tainted ...string) *resourceapi.ResourceSlice {
	on := node
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: resourceapi.ResourceSliceSpec{Driver: s.driver, NodeName: &on,
		Pool: resourceapi.ResourcePool{Name: s.name, Generation: 1, ResourceSliceCount: 1}, Devices: manyGPUs(siegeDevices)}}
	for n := range slice.Spec.Devices {
		for _, name := range tainted {
			if slice.Spec.Devices[n].Name == name {
				slice.Spec.Devices[n].Taints = []resourceapi.DeviceTaint{{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}
			}
		}
	}
	return slice
}

func (s *siege) publish() {
	s.Helper()
	create(s.T, s.c.ResourceV1().ResourceSlices(), s.slice())
}

// watch notes the pods that leave.
func (s *siege) watch() {
	s.Helper()
	leaves := func(object any) {
		if pod, is := object.(*corev1.Pod); is {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			if s.evicted[pod.UID].IsZero() {
				s.evicted[pod.UID] = time.Now()
			}
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.c, 0, informers.WithNamespace(s.name))
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: leaves}); err != nil {
		s.Fatal(err)
	}
	factory.Start(s.Context().Done())
	s.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(s.Context().Done())
}

// gone is how many pods were evicted.
func (s *siege) gone() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.evicted)
}

// most is the largest number of pods that were evicted within a time.
func (s *siege) most(window time.Duration) (most int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, from := range s.evicted {
		count := 0
		for _, at := range s.evicted {
			if after := at.Sub(from); after >= 0 && after < window {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// podSpec is that of each pod.
func (s *siege) podSpec() corev1.PodSpec {
	return corev1.PodSpec{AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)), RestartPolicy: corev1.RestartPolicyAlways,
		Containers:     []corev1.Container{{Name: "a", Image: "example.com/a", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}}
}

// workload creates so many pods by a controller of Kubernetes, or by none, and waits until they run and the guard has seen that.
func (s *siege) workload(kind string, pods int) {
	s.Helper()
	labels := map[string]string{"app": "train"}
	meta, selector := metav1.ObjectMeta{Name: "train"}, &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.podSpec()}
	replicas := new(int32(pods))
	switch kind {
	case "StatefulSet":
		create(s.T, s.c.AppsV1().StatefulSets(s.name), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: replicas, Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement}})
	case "Deployment":
		create(s.T, s.c.AppsV1().Deployments(s.name), &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: replicas, Selector: selector, Template: template}})
	case "ReplicaSet":
		create(s.T, s.c.AppsV1().ReplicaSets(s.name), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: replicas, Selector: selector, Template: template}})
	case "Job":
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		create(s.T, s.c.BatchV1().Jobs(s.name), &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: replicas, Completions: replicas, BackoffLimit: new(int32(1000)), Template: template}})
	default:
		for n := range pods {
			create(s.T, s.c.CoreV1().Pods(s.name), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%03d", n)}, Spec: s.podSpec()})
		}
	}
	s.seen(pods)
}

// shared creates one claim for many pods, all on one device.
func (s *siege) shared(pods int) {
	s.Helper()
	claim := create(s.T, s.c.ResourceV1().ResourceClaims(s.name), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared", Finalizers: []string{resourceapi.Finalizer}}, Spec: s.claim()})
	for n := range pods {
		spec := s.podSpec()
		spec.NodeName, spec.ResourceClaims = node, []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
		pod := create(s.T, s.c.CoreV1().Pods(s.name), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%03d", n)}, Spec: spec})
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: s.driver, Pool: s.name, Device: "gpu-00"}}}}
	if _, err := s.c.ResourceV1().ResourceClaims(s.name).UpdateStatus(s.Context(), claim, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.seen(pods)
}

// seen waits until the guard counts so many pods on the pool.
func (s *siege) seen(pods int) {
	s.Helper()
	if last, seen := s.back(pods); !seen {
		s.Fatalf("the guard has not seen %d pods: %s", pods, last)
	}
}

// back waits for the same, and reports whether it came: a Job waits for minutes before it replaces many pods.
func (s *siege) back(pods int) (last string, seen bool) {
	s.Helper()
	probe := s.rule("probe", "", "NoExecute", "pods<=0")
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.rules.Create(ctx, probe, notStored)
		last = fmt.Sprint(err)
		return strings.Contains(last, fmt.Sprintf("hits %d pods", pods)) || pods == 1 && strings.Contains(last, "hits 1 pod"), nil
	})
	return last, err == nil
}

// settle waits until no further pod is evicted.
func (s *siege) settle() {
	s.Helper()
	s.leaves(math.MaxInt)
}

// leaves waits until so many pods have been evicted in all, or no further one is. A device of a pod that has left has none to evict.
func (s *siege) leaves(total int) {
	s.Helper()
	last, since := s.gone(), time.Now()
	_ = wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if now := s.gone(); now != last {
			last, since = now, time.Now()
		}
		return last >= total || time.Since(since) > 3*time.Second, nil
	})
}

// rule is one for a device of the pool, or for all of them.
func (s *siege) rule(name, device, effect, acknowledges string) *unstructured.Unstructured {
	selector := s.driver + "/" + s.name
	if device != "" {
		selector += "/" + device
	}
	return ruleOf(cluster.DeviceTaintRules(), s.name+"-"+name, selector, effect, acknowledges)
}

// note counts an answer, and reports whether the write was admitted. One that was refused for another reason than the guard's fails the test.
func (s *siege) note(err error) bool {
	s.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case err == nil:
		s.admitted++
		return true
	case !strings.Contains(err.Error(), "guard-") && !strings.Contains(err.Error(), "DRA-RULE-004") && !strings.Contains(err.Error(), "failed calling webhook") && !strings.Contains(err.Error(), "not synced"):
		s.Error(err)
	}
	s.refused++
	return false
}

func (s *siege) create(rule *unstructured.Unstructured) bool {
	s.Helper()
	_, err := s.rules.Create(s.Context(), rule, metav1.CreateOptions{})
	return s.note(err)
}

func (s *siege) delete(name string) {
	s.Helper()
	if err := s.rules.Delete(s.Context(), s.name+"-"+name, metav1.DeleteOptions{}); err != nil {
		s.Error(err)
	}
}

// effect changes the effect of a rule, in one of the ways in which the API server changes objects.
func (s *siege) effect(name, how, effect string) bool {
	s.Helper()
	name = s.name + "-" + name
	var err error
	switch how {
	case "update":
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // its status is written, too
			rule, err := s.rules.Get(s.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := unstructured.SetNestedField(rule.Object, effect, "spec", "taint", "effect"); err != nil {
				return err
			}
			_, err = s.rules.Update(s.Context(), rule, metav1.UpdateOptions{})
			return err
		})
	case "json":
		_, err = s.rules.Patch(s.Context(), name, types.JSONPatchType, []byte(fmt.Sprintf(`[{"op": "replace", "path": "/spec/taint/effect", "value": %q}]`, effect)), metav1.PatchOptions{})
	case "strategic":
		_, err = s.rules.Patch(s.Context(), name, types.StrategicMergePatchType, []byte(fmt.Sprintf(`{"spec": {"taint": {"effect": %q}}}`, effect)), metav1.PatchOptions{})
	case "apply":
		rule := s.rule(strings.TrimPrefix(name, s.name+"-"), "", effect, "")
		var text []byte
		if text, err = json.Marshal(rule); err == nil {
			_, err = s.rules.Patch(s.Context(), name, types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "siege", Force: new(true)})
		}
	default:
		_, err = s.rules.Patch(s.Context(), name, types.MergePatchType, []byte(fmt.Sprintf(`{"spec": {"taint": {"effect": %q}}}`, effect)), metav1.PatchOptions{})
	}
	return s.note(err)
}

// held are the devices of the pods that run, by the name of the pod.
func (s *siege) held() (devices []string) {
	s.Helper()
	list, err := s.c.ResourceV1().ResourceClaims(s.name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		if allocation := list.Items[i].Status.Allocation; allocation != nil && len(list.Items[i].Status.ReservedFor) > 0 {
			devices = append(devices, allocation.Devices.Results[0].Device)
		}
	}
	return devices
}

// drain creates a DeviceDrain of devices.
func (s *siege) drain(name string, devices ...string) bool {
	s.Helper()
	d := &v1alpha1.DeviceDrain{}
	d.APIVersion, d.Kind, d.Name = v1alpha1.APIVersion, v1alpha1.DeviceDrainKind, s.name+"-"+name
	for _, device := range devices {
		d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName{Driver: s.driver, Pool: s.name, Device: device})
	}
	text, err := json.Marshal(d)
	if err != nil {
		s.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		s.Fatal(err)
	}
	_, err = s.untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceDrainResource)).Create(s.Context(), object, metav1.CreateOptions{})
	return s.note(err)
}
