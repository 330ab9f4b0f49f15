package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterdata"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestTenant: the label that the configuration names decides which namespaces are one tenant.
// A namespace that is not known is not read.
func TestTenant(t *testing.T) {
	client := fake.NewSimpleClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a1", Labels: map[string]string{"example.com/tenant": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	metrics, err := clusterdata.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := clusterdata.NewNamespaces(client, metrics, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	go namespaces.Run(t.Context())
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return namespaces.Ready() == nil, nil
	}); err != nil {
		t.Fatal(errors.Join(err, namespaces.Ready()))
	}
	clusterView := &ClusterView{clusterData: clusterdata.Data{Namespaces: namespaces}}
	for label, want := range map[string]map[string]string{
		"":                   {"a1": "", "b": "", "unknown": ""},
		"example.com/tenant": {"a1": "a", "b": "", "unknown": ""},
	} {
		reviewer, err := review.New(v1alpha1.StewardConfiguration{ProtectedLabels: v1alpha1.ProtectedLabels{Keys: []string{"example.com/tenant"}, Tenant: label}})
		if err != nil {
			t.Fatal(err)
		}
		site := &reloader{minor: func() int { return 0 }}
		site.inForce.Store(&reviewer)
		client.ClearActions()
		for namespace, want := range want {
			if got := tenant(site, clusterView)(namespace); got != want {
				t.Errorf("label %q: namespace %s is of tenant %q, want %q", label, namespace, got, want)
			}
			if got := tenant(site, nil)(namespace); got != "" {
				t.Errorf("without live data: %q", got)
			}
		}
		for _, action := range client.Actions() {
			if action.GetVerb() == "get" {
				t.Errorf("asked the API server: %v", action)
			}
		}
	}
}
