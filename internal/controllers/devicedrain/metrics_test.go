package devicedrain

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestBlockedSince: a blocked drain has a series with the time at which that began, which goes with
// the block and with the drain.
func TestBlockedSince(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	status := func(blocked metav1.ConditionStatus, reason string) v1alpha1.DeviceDrainStatus {
		return v1alpha1.DeviceDrainStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.DrainDraining, Status: "True", Reason: "Evicting"},
			{Type: v1alpha1.DrainBlocked, Status: blocked, Reason: reason, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}}}
	}
	series := func(want string) {
		t.Helper()
		if want != "" {
			want = "# HELP dra_steward_drain_blocked_timestamp_seconds When a DeviceDrain became blocked, by drain and by the reason that blocks it; absent while it is not blocked.\n" +
				"# TYPE dra_steward_drain_blocked_timestamp_seconds gauge\n" + want + "\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_drain_blocked_timestamp_seconds"); err != nil {
			t.Error(err)
		}
	}
	m.state("a", status("True", v1alpha1.BlockedBudget))
	series(`dra_steward_drain_blocked_timestamp_seconds{drain="a",reason="` + v1alpha1.BlockedBudget + `"} 1000`)
	m.state("a", status("True", v1alpha1.BlockedNoController))
	series(`dra_steward_drain_blocked_timestamp_seconds{drain="a",reason="` + v1alpha1.BlockedNoController + `"} 1000`)
	m.state("a", status("False", "NotBlocked"))
	series("")
	m.state("a", status("True", v1alpha1.BlockedNoController))
	m.forget("a")
	series("")
}
