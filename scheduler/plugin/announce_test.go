package plugin

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize/record"
)

// TestAnnounce: only a scheduler that leads announces that it applies patches.
func TestAnnounce(t *testing.T) {
	own := &Election{Namespace: "kube-system", Name: "kube-scheduler", Host: "a"}
	for name, tt := range map[string]struct {
		election *Election
		holder   string
		want     bool
	}{
		"without an election": {nil, "", true},
		"leads":               {own, "a_5d2c6f0a", true},
		"another host":        {own, "ab_5d2c6f0a", false},
		"no Lease":            {own, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if tt.holder != "" {
					lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: own.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &tt.holder}}
					if _, err := client.CoordinationV1().Leases(own.Namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var leading atomic.Bool
				announce(ctx, client, tt.election, &leading)
				if leading.Load() != tt.want {
					t.Errorf("leading: %t, want %t", leading.Load(), tt.want)
				}
				_, err := client.CoordinationV1().Leases(record.SchedulerLeaseNamespace).Get(t.Context(), record.SchedulerLeaseName, metav1.GetOptions{})
				if (err == nil) != tt.want || err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("Lease: %v, want one: %t", err, tt.want)
				}
			})
		})
	}
}
