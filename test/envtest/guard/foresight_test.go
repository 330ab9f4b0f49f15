package guard_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// foreseeing allows everything but pods that do not land again.
var foreseeing = map[string]any{"guard": map[string]any{"foresight": true, "thresholds": map[string]any{"pods": 100, "namespaces": 10, "percent": 100, "stranded": 0}}}

// TestForesight: four pods have no controller, and a fifth one of a ReplicaSet has no other
// device while all are tainted. The guard says so, and refuses the rule until that is
// acknowledged. If only the device of the fifth is tainted, it lands on another one.
func TestForesight(t *testing.T) {
	log := &proc.Log{}
	_, c, seen := guardedWith(t, log, foreseeing)
	holders(t, c)
	create(t, c.ResourceV1().DeviceClasses(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "foresight"}})
	t.Cleanup(func() {
		_ = c.ResourceV1().DeviceClasses().Delete(context.WithoutCancel(t.Context()), "foresight", metav1.DeleteOptions{})
	})
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "foresight"}}}
	create(t, c.ResourceV1().ResourceClaimTemplates("radius-0"), template)
	pod, device := owned(t, c, "radius-0")
	config := cluster.Config()
	config.WarningHandler = seen
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	rules, version := untyped.Resource(cluster.DeviceTaintRules()), cluster.DeviceTaintRules()
	write := func(selector, acknowledges string) error {
		_, err := rules.Create(t.Context(), ruleOf(version, "foreseen", selector, "NoExecute", acknowledges), notStored)
		return err
	}
	const all = "of the pods that it evicts, 5 do not land again, more than the threshold of 0"
	eventually(t, "the guard has seen all pods", func(context.Context) (bool, error) {
		err := write(rack, "")
		return err != nil && strings.Contains(err.Error(), all), nil
	})
	wantDenied(t, write(rack, ""), all, `"pods<=5,namespaces<=2,stranded<=5"`)
	wantDenied(t, write(rack, "stranded<=4"), "of the pods that it evicts, 5 do not land again, more than the acknowledged 4")
	seen.take()
	if err := write(rack, "stranded<=5"); err != nil {
		t.Error(err)
	}
	// The role of the chart lets it read the feature gates of the API server, and it logs them.
	if text := log.String(); !strings.Contains(text, "Pods are placed with these feature gates of kube-scheduler") || !strings.Contains(text, "the metrics of the API server\"") {
		t.Errorf("the log does not name the source of the feature gates:\n%s", text)
	}
	const names = "5 pods do not land again: radius-0/holder-0 (no controller creates it again), "
	if warned := seen.take(); !strings.Contains(warned, names) {
		t.Errorf("warned %q, want %q", warned, names)
	}
	if err := write(rack+"/"+device, ""); err != nil {
		t.Error(err)
	}
	if warned := seen.take(); !strings.Contains(warned, "radius-0/"+pod+"; it lands again") {
		t.Errorf("warned %q", warned)
	}
}

// owned runs a pod of a ReplicaSet with a claim of the template gpu, and returns the pod with
// the device that kube-scheduler allocates to it.
func owned(t *testing.T, c kubernetes.Interface, in string) (pod, device string) {
	t.Helper()
	labels := map[string]string{"app": "owned"}
	create(t, c.AppsV1().ReplicaSets(in), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "owned"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: "holder", AutomountServiceAccountToken: new(false),
			Containers:     []corev1.Container{{Name: "a", Image: "example.com/a", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}},
		}},
	}})
	eventually(t, "the pod of the ReplicaSet has a device", func(ctx context.Context) (bool, error) {
		claims, err := c.ResourceV1().ResourceClaims(in).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, claim := range claims.Items {
			if claim.Annotations[resourceapi.PodResourceClaimAnnotation] == "gpu" && claim.Status.Allocation != nil {
				pod, device = claim.OwnerReferences[0].Name, claim.Status.Allocation.Devices.Results[0].Device
			}
		}
		return pod != "", nil
	})
	return pod, device
}
