package uninstall

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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

// TestStopController: the controller is waited for although the clock of its node is late.
func TestStopController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stops = 20 * time.Second
		client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}})
		begun := time.Now()
		client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			holder, renewed := "a", time.Now().Add(-10*time.Minute).Truncate(2*time.Second)
			if time.Since(begun) >= stops {
				holder = ""
			}
			return true, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(renewed))}}, nil
		})
		u := &uninstall{uninstallOptions: uninstallOptions{namespace: "n", controller: "c", timeout: time.Minute}, client: client, out: io.Discard}
		if err := u.stopController(t.Context()); err != nil || time.Since(begun) != stops {
			t.Errorf("%v after %s, want %s", err, time.Since(begun), stops)
		}
	})
}
