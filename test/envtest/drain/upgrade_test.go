package drain_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/test/envtest/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// TestClusterUpgrade: etcd, API server, controller-manager and scheduler go from 1.36 to 1.37 while a
// drain evicts, another one is blocked, a reaction keeps a device, a patch is in slices, and taint rules
// have tolerating pods. Stored objects are of every version that a cluster can still have. Nothing is
// lost, no pod is evicted by the upgrade, and all of it goes on afterwards.
func TestClusterUpgrade(t *testing.T) {
	guarded(t)
	moving, held, sick, still := newSiteAlone(t, "moving", 6), newSiteAlone(t, "held", 1), newSiteAlone(t, "sick", 2), newSiteAlone(t, "still", 4)
	blocked := held.blocked()
	sick.react(func(spec *v1alpha1.DeviceReactionSpec) { spec.Brake.PercentOfDriver = new(int32(100)) })
	sick.sick(1, 0)
	sick.state(1, 0, v1alpha1.ReactionDrained)
	reacted := sick.theDrain()
	still.tolerating("web", 4)
	still.ruled("no-execute", resourceapi.DeviceTaintEffectNoExecute)
	still.patch("before")
	still.shows("before")
	older := still.storeEveryVersion()
	before, running := moving.others(), pods(t, "held", "still")

	moving.upgradeWhileDraining()

	moving.compare(before, moving.others())
	if after := pods(t, "held", "still"); !maps.Equal(running, after) {
		t.Errorf("pods were replaced: before %v, after %v", running, after)
	}
	still.wantAsStored(older, false)
	if got := still.models(); got != "before before before before before before before before" {
		t.Errorf("after the upgrade the slices have the models %s", got)
	}
	if made := sick.theDrain(); made != reacted {
		t.Errorf("the reaction has the drain %s, want %s", made, reacted)
	}

	// All of it goes on.
	do(held, c.PolicyV1().PodDisruptionBudgets(held.name).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	held.publish(1, 3, 1)
	held.wait(blocked, "Drained=True Drained")
	sick.sick(0, 0)
	sick.state(0, 0, v1alpha1.ReactionDrained)
	for _, object := range older {
		still.rewrite(object)
	}
	still.wantAsStored(older, true)
	still.patch("after")
	still.shows("after")
	do(still, still.patches().Delete(t.Context(), still.name, metav1.DeleteOptions{}))
	still.shows("none")
}

// blocked drains a device whose pod has a budget that never allows an eviction.
func (s site) blocked() string {
	s.Helper()
	s.publish(1, 2, 0)
	s.replicas("web", 1, "")
	s.budget("web", "web", 1)
	name := s.drain("", s.all(0))
	s.wait(name, "Blocked=True BudgetBlocked")
	return name
}

// upgradeWhileDraining upgrades the cluster between the first and the last eviction of a drain.
func (s site) upgradeWhileDraining() {
	s.Helper()
	s.publish(1, 2, 0)
	s.replicas("web", 6, "")
	s.publish(1, 3, 6)
	s.budget("web", "web", 4)
	fewest := s.watched("web")
	spec := s.all(0)
	spec.EvictionsPerMinute = new(int32(4))
	drain := s.drain("", spec)
	s.eventually("one is evicted", func(context.Context) (bool, error) { return len(evicted(s.T, s.name)) > 0, nil })
	if etcd := s.etcdMinor(); etcd != "3.6" {
		s.Errorf("etcd was %s before the upgrade, want 3.6", etcd)
	}
	do(s, cluster.Upgrade(s.Context(), "1.37", func(binary string) {
		n := len(evicted(s.T, s.name))
		s.Logf("%s is upgraded; %d of 6 pods are evicted", binary, n)
		if binary == assets.APIServer && n == 6 {
			s.Error("the drain had ended before the upgrade")
		}
	}))
	rules = s.untyped().Resource(resourceapi.SchemeGroupVersion.WithResource("devicetaintrules"))
	if etcd := s.etcdMinor(); etcd != "3.7" {
		s.Errorf("etcd is %s after the upgrade, want 3.7", etcd)
	}
	s.wait(drain, "Drained=True Drained")
	if n := once(s.T, s.name); n != 6 {
		s.Errorf("%d pods were evicted, want 6", n)
	}
	if n := fewest(); n < 4 {
		s.Errorf("only %d were ready at a time", n)
	}
}

func (s site) untyped() dynamic.Interface {
	s.Helper()
	untyped, err := dynamic.NewForConfig(cluster.Config())
	do(s, err)
	return untyped
}

// tolerating runs pods that tolerate every taint. The eviction controller of Kubernetes ignores
// tolerations without an effect.
func (s site) tolerating(name string, n int32) {
	s.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "tolerating"}}
	template.Spec.Spec = s.request(
		resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule},
		resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute})
	do(s, s.create(c.ResourceV1().ResourceClaimTemplates(s.name).Create(s.Context(), template, metav1.CreateOptions{})))
	s.replicasOf(name, n, func(pod *corev1.PodSpec) {
		pod.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		pod.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("tolerating")}}
	})
}

// ruled taints the devices of the site's driver.
func (s site) ruled(name string, effect resourceapi.DeviceTaintEffect) {
	s.Helper()
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": s.name + "-" + name},
		"spec": map[string]any{"deviceSelector": map[string]any{"driver": s.driver},
			"taint": map[string]any{"key": "example.com/" + name, "effect": string(effect)}},
	}}
	do(s, s.create(rules.Create(s.Context(), rule, metav1.CreateOptions{})))
}

func (s site) patches() dynamic.ResourceInterface {
	return s.untyped().Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
}

// patch gives the site's devices a model, and waits until the status says so of the present generation.
func (s site) patch(model string) {
	s.Helper()
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.ResourceSlicePatchKind,
		"metadata": map[string]any{"name": s.name},
		"spec": map[string]any{"devices": map[string]any{"filter": map[string]any{"driver": s.driver},
			"attributes": map[string]any{s.driver + "/model": map[string]any{"string": model}}}},
	}}
	written, err := s.patches().Apply(s.Context(), s.name, patch, metav1.ApplyOptions{FieldManager: "test"})
	do(s, err)
	s.eventually("the patch applies", func(ctx context.Context) (bool, error) {
		patch, err := s.patches().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		var status v1alpha1.ResourceSlicePatchStatus
		fields, _, _ := unstructured.NestedMap(patch.Object, "status")
		do(s, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status))
		applied := meta.FindStatusCondition(status.Conditions, v1alpha1.PatchApplied)
		return applied != nil && applied.Status == metav1.ConditionTrue && applied.ObservedGeneration == written.GetGeneration(), nil
	})
}

// shows waits until the slices give each device of the site a model.
func (s site) shows(model string) {
	s.Helper()
	want := strings.TrimSpace(strings.Repeat(model+" ", len(strings.Fields(s.models()))))
	s.eventually("the slices have the model "+model, func(context.Context) (bool, error) { return s.models() == want, nil })
}

// models are those of the site's devices in the slices.
func (s site) models() string {
	s.Helper()
	list, err := c.ResourceV1().ResourceSlices().List(s.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + s.driver})
	do(s, err)
	var models []string
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			model := device.Attributes[resourceapi.QualifiedName(s.driver+"/model")].StringValue
			if model == nil {
				model = new("none")
			}
			models = append(models, *model)
		}
	}
	return strings.Join(models, " ")
}

// guarded puts the webhook in front of the API server, which writes patches into slices.
func guarded(t *testing.T) {
	t.Helper()
	log := &proc.Log{}
	webhook, err := guard.Start(t.Context(), cluster, guard.Options{Values: values(), Log: log})
	if err != nil {
		t.Fatalf("%v; its log:\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := webhook.Stop(); err != nil || t.Failed() {
			t.Errorf("the webhook: %v; its log:\n%s", err, log)
		}
	})
}

// others are the specs of all objects of resource.k8s.io and of ours, without those that the moving
// drain changes, by kind and name.
func (s site) others() map[string]string {
	s.Helper()
	found := map[string]string{}
	ours := v1alpha1.GroupVersion()
	stock := resourceapi.SchemeGroupVersion
	for _, resource := range []schema.GroupVersionResource{
		stock.WithResource("resourceclaims"), stock.WithResource("resourceclaimtemplates"), stock.WithResource("deviceclasses"), stock.WithResource("resourceslices"),
		resourcev1beta2.SchemeGroupVersion.WithResource("devicetaintrules"),
		ours.WithResource(v1alpha1.DeviceDrainResource), ours.WithResource(v1alpha1.DeviceReactionResource), ours.WithResource(v1alpha1.ResourceSlicePatchResource),
	} {
		list, err := s.untyped().Resource(resource).List(s.Context(), metav1.ListOptions{})
		do(s, err)
		for _, object := range list.Items {
			if strings.HasPrefix(object.GetNamespace()+object.GetName(), s.name) || strings.Contains(object.GetName(), "drain-"+s.name) {
				continue
			}
			found[resource.Resource+" "+object.GetNamespace()+"/"+object.GetName()] = string(object.GetUID()) + " " + text(object.Object["spec"])
		}
	}
	return found
}

func (s site) compare(before, after map[string]string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			s.Errorf("%s: before %s, after %s", name, before[name], after[name])
		}
	}
	s.Logf("compared %d objects", len(before))
	if len(before) < 20 {
		s.Errorf("only %d objects were stored", len(before))
	}
}

func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// pods are the UIDs of the pods of namespaces, by name.
func pods(t *testing.T, namespaces ...string) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	for _, namespace := range namespaces {
		list, err := c.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range list.Items {
			found[namespace+"/"+pod.Name] = pod.UID
		}
	}
	return found
}
