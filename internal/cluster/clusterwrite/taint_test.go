package clusterwrite

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
)

// TestNotes: what is not asked for keeps what is stored, and an empty text removes it.
func TestNotes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	stored := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.OwnerAnnotation: "team gpu", v1alpha1.ReasonAnnotation: "fan", v1alpha1.TicketAnnotation: "OPS-1", v1alpha1.ExpiresAnnotation: "2026-12-31T18:00:00Z"}}}
	asked := Taint{Reason: new("heat"), Ticket: new("")}
	intent := asked.Intent(taints.Target{}, resourceapi.DeviceTaint{}, stored, "jane", now)
	if intent.Owner != "team gpu" || intent.Reason != "heat" || intent.Ticket != "" || intent.Expires.Month() != time.December {
		t.Errorf("%+v", intent)
	}
	if intent = asked.Intent(taints.Target{}, resourceapi.DeviceTaint{}, nil, "jane", now); intent.Owner != "jane" || !intent.Expires.IsZero() {
		t.Errorf("%+v", intent)
	}
	for d, want := range map[time.Duration]time.Time{0: {}, time.Hour: now.Add(time.Hour)} {
		if got := (Taint{Expires: &d}).Intent(taints.Target{}, resourceapi.DeviceTaint{}, stored, "", now).Expires; !got.Equal(want) {
			t.Errorf("--for %s: until %s", d, got)
		}
	}
}

// TestCheck: what the API server does not check is refused with the flag that is wrong.
func TestCheck(t *testing.T) {
	for _, bad := range []string{strings.Repeat("x", maxNote+1), "two\nlines", "\xff"} {
		if err := (Taint{Reason: &bad}).Check(); err == nil || !strings.Contains(err.Error(), "--reason") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := (Taint{Expires: new(time.Second)}).Check(); err == nil || !strings.Contains(err.Error(), "--for 1s") {
		t.Error(err)
	}
	if err := (Taint{Acknowledged: "pods"}).Check(); err == nil || !strings.Contains(err.Error(), "--acknowledge") {
		t.Error(err)
	}
	if err := (Taint{Expires: new(time.Hour), Acknowledged: "pods<=3", Owner: new("team gpu")}).Check(); err != nil {
		t.Error(err)
	}
}
