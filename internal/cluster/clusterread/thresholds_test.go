package clusterread

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dra-steward/dra-steward/internal/guard"
)

func TestSiteThresholds(t *testing.T) {
	site := func(namespace, text string) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "site", Labels: map[string]string{"app.kubernetes.io/name": "dra-steward"}},
			Data: map[string]string{"config.yaml": "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n" + text}}
	}
	named := site("dra-steward", "guard: {thresholds: {pods: 3}}").(*corev1.ConfigMap)
	named.Name = "dra-steward"
	usual := guard.DefaultThresholds()
	for name, tt := range map[string]struct {
		objects []runtime.Object
		refuse  error
		want    guard.Thresholds
		from    string
	}{
		"none":       {nil, nil, usual, "default; no release found"},
		"forbidden":  {nil, errors.New("forbidden"), usual, "cannot be read: forbidden"},
		"by name":    {[]runtime.Object{named}, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil), guard.Thresholds{Pods: 3, Namespaces: usual.Namespaces, Percent: usual.Percent}, "ConfigMap dra-steward/dra-steward"},
		"nothing":    {[]runtime.Object{site("a", "")}, nil, usual, "ConfigMap a/site"},
		"some":       {[]runtime.Object{site("a", "guard: {thresholds: {pods: 3}}")}, nil, guard.Thresholds{Pods: 3, Namespaces: usual.Namespaces, Percent: usual.Percent}, "ConfigMap a/site"},
		"parameters": {[]runtime.Object{site("a", "policies: {parameters: {DRA-RULE-004: {maxPercent: 50}}}")}, nil, guard.Thresholds{Pods: usual.Pods, Namespaces: usual.Namespaces, Percent: 50}, "ConfigMap a/site"},
		"wrong":      {[]runtime.Object{site("a", "gaurd: {}")}, nil, usual, "cannot be understood"},
		"two":        {[]runtime.Object{site("a", ""), site("b", "")}, nil, usual, "2 releases found"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tt.objects...)
			if tt.refuse != nil {
				client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.refuse })
			}
			got := SiteThresholds(t.Context(), client)
			if got.Thresholds != tt.want || !strings.Contains(got.From, tt.from) {
				t.Errorf("got %+v from %s, want %+v from %s", got.Thresholds, got.From, tt.want, tt.from)
			}
		})
	}
}
