package uninstall

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestOursAndWhatItDoes(t *testing.T) {
	for manifest, want := range map[string]string{
		"metadata: {name: a, labels: {dra-steward.io/drain: firmware}}\nspec: {deviceSelector: {driver: d, device: x}, taint: {key: k, value: v, effect: NoSchedule}}": "DeviceDrain firmware: k=v:NoSchedule on driver d device x",
		"metadata: {name: a, labels: {app.kubernetes.io/managed-by: dra-steward-taint}}\nspec: {deviceSelector: {}, taint: {key: k, effect: NoExecute}}":               "dra-steward taint: k:NoExecute on all devices",
		"metadata: {name: a, ownerReferences: [{apiVersion: dra-steward.io/v1alpha1, kind: DeviceDrain, name: b}]}":                                                    "DeviceDrain b: : on all devices",
		"metadata: {name: dra-steward-probe}\nspec: {taint: {key: k, effect: None}}":                                                                                   "a probe of the controller: k:None on all devices",
		"metadata: {name: a, labels: {app.kubernetes.io/managed-by: Helm}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: b}]}":                             "",
	} {
		rule := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &rule.Object); err != nil {
			t.Fatal(err)
		}
		by, is := ours(rule)
		if got := by + ": " + describeRule(rule); is != (want != "") || is && got != want {
			t.Errorf("%s\ngot %v %q, want %q", manifest, is, got, want)
		}
	}
}

func TestHeldBy(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	holder, none, seconds, renewed := "a", "", int32(15), metav1.NewMicroTime(now.Add(-10*time.Second))
	long := metav1.NewMicroTime(now.Add(-16 * time.Second))
	for name, tt := range map[string]struct {
		spec coordinationv1.LeaseSpec
		want string
	}{
		"held":     {coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed}, "a"},
		"expired":  {coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &long}, ""},
		"released": {coordinationv1.LeaseSpec{HolderIdentity: &none, LeaseDurationSeconds: &seconds, RenewTime: &renewed}, ""},
		"new":      {coordinationv1.LeaseSpec{}, ""},
	} {
		if got := heldBy(&coordinationv1.Lease{Spec: tt.spec}, now); got != tt.want {
			t.Errorf("%s: held by %q, want %q", name, got, tt.want)
		}
	}
}
