package console_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// reactionTo is a reaction with a text wherever the cluster has one.
func reactionTo(text string) *v1alpha1.DeviceReaction {
	since := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	r := &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: text}}
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReactionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.PausedBrake, Message: text}}
	r.Status.Counts = v1alpha1.ReactionCounts{Sick: 3, Waiting: 1, Draining: 1, Drained: 1}
	r.Status.Devices = []v1alpha1.ReactionDevice{{DeviceName: v1alpha1.DeviceName{Driver: text, Pool: text, Device: text}, State: v1alpha1.ReactionDrained,
		Cause: text, Message: text, Drain: text, SickSince: &since}}
	return r
}

// TestReactions: the page of drains has the reactions with their devices, why one is paused, and the
// command that puts a device back into use.
func TestReactions(t *testing.T) {
	r := reactionTo("xid")
	r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.ReactionActing, Status: metav1.ConditionFalse, Reason: "Observe", Message: "the mode is Observe"})
	f, err := fleet.Build(t.Context(), fleet.Input{Reactions: []*v1alpha1.DeviceReaction{r}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := console.NewGate(port)
	handler := newServer(t, f).Handler(g)
	body := answer(handler, "GET", "/drains", enter(t, g, handler)).Body.String()
	for _, want := range []string{"There are no drains.", "Reaction <bdi>xid</bdi>", "Observe", "3 sick, 1 waiting, 1 draining, 1 drained", "Paused: xid", "xid/xid/xid", "Drained", "acknowledge xid/xid/xid --reason replaced"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "the mode is Observe") {
		t.Error("the mode is there twice")
	}
}
