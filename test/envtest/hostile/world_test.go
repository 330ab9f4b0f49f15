package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// tenantOf makes a namespace, and a user who may write in it, label namespaces, and
// write DeviceTaintRules and DeviceClasses. It returns the clients of that user.
func tenantOf(t *testing.T, admin kubernetes.Interface, name string) kubernetes.Interface {
	t.Helper()
	config, err := cluster.User(name, "tenants")
	must(t, err)
	ctx := t.Context()
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	mustExist(t, err)
	_, err = admin.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	mustExist(t, err)
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hostile"}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "tenants"}}
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}},
		{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaimtemplates", "devicetaintrules", "deviceclasses"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"get", "patch", "update"}},
	}}, metav1.CreateOptions{})
	mustExist(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
	mustExist(t, err)
	clients := as(t, config)
	eventually(t, name+" may write", func(ctx context.Context) error {
		_, err := clients.ResourceV1().ResourceClaims(name).Create(ctx, ordinary(), dryRun)
		return err
	})
	return clients
}

func mustExist(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
}

// ordinary is a claim that breaks no policy.
func ordinary() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "ordinary-"}, Spec: claimSpec(request("gpu", 1))}
}

// publish makes the device class and eight devices, so that expressions of selectors and the
// reach of taint rules are evaluated.
func publish(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}}}}
	_, err := admin.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{})
	mustExist(t, err)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: new("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}}}
	for i := range 8 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	_, err = admin.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	mustExist(t, err)
}

// A sighting is a violation that was stored.
type sighting struct {
	object string
	// open is set for what is not denied while a killed replica is asked.
	open bool
}

func (s sighting) String() string { return s.object }

type sightings struct {
	mu  sync.Mutex
	all []sighting
}

func (s *sightings) note(object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta, is := object.(metav1.Object)
	if !is {
		return
	}
	_, open := object.(*resourceapi.DeviceClass)
	switch object.(type) {
	case *resourceapi.DeviceTaintRule, *resourcev1beta2.DeviceTaintRule, *resourcev1alpha3.DeviceTaintRule:
		var rule resourceapi.DeviceTaintRule // what is read of it is the same in all versions
		if err := json.Unmarshal(encode(object), &rule); err != nil {
			panic(err)
		}
		open = rule.Spec.DeviceSelector != nil && rule.Spec.DeviceSelector.Driver != nil
	}
	s.all = append(s.all, sighting{fmt.Sprintf("%T %s/%s, created %s", object, meta.GetNamespace(), meta.GetName(), meta.GetCreationTimestamp()), open})
}

// taintRules has the DeviceTaintRules in the newest version that the API server has.
func taintRules(factory informers.SharedInformerFactory) cache.SharedIndexInformer {
	switch resources := factory.Resource(); cluster.DeviceTaintRules().Version {
	case "v1alpha3":
		return resources.V1alpha3().DeviceTaintRules().Informer()
	case "v1beta2":
		return resources.V1beta2().DeviceTaintRules().Informer()
	default:
		return resources.V1().DeviceTaintRules().Informer()
	}
}

// watchViolations notes each violation that is stored, also one that its author deletes at
// once. The function it returns waits for what was stored before, ends the watch, and returns
// what was seen.
func watchViolations(t *testing.T, admin kubernetes.Interface) func() []sighting {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	seen := &sightings{}
	began := time.Now().Add(-time.Second)
	factory := informers.NewSharedInformerFactory(admin, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Resource().V1().ResourceClaims().Informer(), factory.Resource().V1().ResourceClaimTemplates().Informer(),
		taintRules(factory), factory.Resource().V1().DeviceClasses().Informer(), factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) {
				if meta, is := object.(metav1.Object); is && meta.GetCreationTimestamp().After(began) && (strings.HasPrefix(meta.GetName(), violation) || labelledBy(object)) {
					seen.note(object)
				}
			},
			UpdateFunc: func(old, object any) {
				if !labelledBy(old) && labelledBy(object) {
					seen.note(object)
				}
			},
		})
		must(t, err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return func() []sighting {
		last, err := admin.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(context.WithoutCancel(t.Context()), ordinary(), metav1.CreateOptions{})
		must(t, err)
		claims := factory.Resource().V1().ResourceClaims().Lister().ResourceClaims(last.Namespace)
		eventually(t, "the watch has seen the last write", func(context.Context) error {
			_, err := claims.Get(last.Name)
			return err
		})
		cancel()
		factory.Shutdown()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.all
	}
}

// labelledBy reports whether an object has a label that no tenant may have set.
func labelledBy(object any) bool {
	meta, is := object.(metav1.Object)
	return is && (meta.GetLabels()[tier] != "" || meta.GetLabels()[violated] != "")
}

// peaks fails the test if a replica had more in RAM than its container may have.
func peaks(t *testing.T) {
	t.Helper()
	for _, pod := range kubelet.Pods("webhook") {
		limit := pod.Object.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
		peak, err := pod.PeakMemory()
		if err != nil {
			t.Logf("%s: %v", pod.Object.Name, err)
			continue
		}
		t.Logf("%s: peak %d MiB of %s, after %v", pod.Object.Name, peak>>20, limit.String(), time.Since(pod.Started).Round(time.Second))
		if limit.Cmp(*resource.NewQuantity(peak, resource.BinarySI)) < 0 {
			t.Errorf("%s: peak %d MiB, the container may have %s", pod.Object.Name, peak>>20, limit.String())
		}
	}
}
