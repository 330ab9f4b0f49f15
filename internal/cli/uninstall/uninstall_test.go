package uninstall

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestControllerElsewhere: a controller that has another name or namespace is named, before anything is changed.
func TestControllerElsewhere(t *testing.T) {
	deployment := func(namespace, name, chart string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/component": "controller", "helm.sh/chart": chart}}}
	}
	for name, test := range map[string]struct {
		there     *appsv1.Deployment
		forbidden bool
		want      string
	}{
		"another name": {there: deployment("n", "gpu-dra-steward-controller", "dra-steward-0.1.0"), want: "namespace n has no Deployment c, but namespace n has gpu-dra-steward-controller, " +
			"which runs the controller: set --namespace=n --controller=gpu-dra-steward-controller --webhook=gpu-dra-steward"},
		"another namespace": {there: deployment("gpu", "c", "dra-steward-0.1.0"), want: "set --namespace=gpu --controller=c --webhook=c"},
		"of another chart":  {there: deployment("cert-manager", "cert-manager", "cert-manager-v1.20.0")},
		"not allowed":       {there: deployment("gpu", "c", "dra-steward-0.1.0"), forbidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(test.there)
			client.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.forbidden, nil, apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil)
			})
			u := &uninstall{uninstallOptions: uninstallOptions{namespace: "n", controller: "c", timeout: time.Minute}, client: client, out: io.Discard}
			err := u.checkController(t.Context())
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
