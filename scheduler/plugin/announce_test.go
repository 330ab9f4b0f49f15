package plugin

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// TestAnnounce: only a scheduler that leads announces that it applies patches.
func TestAnnounce(t *testing.T) {
	for name, tt := range map[string]struct {
		leads func() bool
		want  bool
	}{
		"without an election": {nil, true},
		"leads":               {func() bool { return true }, true},
		"waits":               {func() bool { return false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var leading atomic.Bool
				announce(ctx, client, tt.leads, &leading)
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
