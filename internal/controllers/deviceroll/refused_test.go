package deviceroll

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
)

// podAPI answers each deletion of a pod with an error.
type podAPI struct {
	API
	err error
}

func (a podAPI) DeletePod(context.Context, types.NamespacedName, types.UID) error { return a.err }

// TestRefusedDeletion: where the admission check for driver pods refuses the deletion, the roll says so and makes
// no event of a deletion; nor does it where another pod has the name by now.
func TestRefusedDeletion(t *testing.T) {
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: `admission webhook "driverpods.dra-steward.io" denied the request: Pod "driver": 1 claim is prepared`}}
	other := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "driver", errors.New("the UID in the precondition (1) does not match the UID in record (2)"))
	for name, tt := range map[string]struct {
		err     error
		refused string
		events  int
	}{
		"deleted":     {nil, "", 1},
		"refused":     {refusal, "1 claim is prepared", 0},
		"another pod": {other, "", 0},
		"gone":        {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "driver"), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, 1, asIs)
			m.run(100, func() bool { return m.node(0).State == v1alpha1.RollReplacing })
			events := record.NewFakeRecorder(8)
			c := &Controller{options: Options{API: podAPI{err: tt.err}, Recorder: events}, refused: map[string]string{}}
			decision := roll.Decision{DeletePods: []roll.Pod{m.nodes["node-0"].Pods[0]}}
			decision.DeletePods[0].Node = "node-0"
			if err := c.act(t.Context(), m.roll, decision, &cluster{}); (err == nil) != (tt.refused == "") {
				t.Error(err)
			}
			refused := c.refused["roll/node-0"]
			if !strings.Contains(refused, tt.refused) || (refused == "") != (tt.refused == "") || len(events.Events) != tt.events {
				t.Errorf("refused %q, %d events", refused, len(events.Events))
			}
			m.nodes["node-0"].Refused, m.nodes["node-0"].Pods[0].Deleting = refused, false
			m.pass()
			if n := m.node(0); refused != "" && n.Message != refused {
				t.Errorf("the status does not say why: %+v", n)
			}
		})
	}
}

// TestRefusedRestore: a node that the controller cannot uncordon says why while that is so, and is done with the difference
// of its devices.
func TestRefusedRestore(t *testing.T) {
	const why = "the controller has no right to cordon nodes"
	for state, change := range map[v1alpha1.RollState]func(*v1alpha1.DeviceRollSpec){
		v1alpha1.RollRestoring: asIs,
		v1alpha1.RollUndone:    func(s *v1alpha1.DeviceRollSpec) { s.Undo = true },
		v1alpha1.RollSkipped:   func(s *v1alpha1.DeviceRollSpec) { s.Skip = []string{"node-0"} },
	} {
		t.Run(string(state), func(t *testing.T) {
			m := newModel(t, 1, func(s *v1alpha1.DeviceRollSpec) {
				ofNodes(s)
				s.Proof = nil
			})
			n := m.nodes["node-0"]
			m.run(100, func() bool { return m.node(0).State == v1alpha1.RollPublishing })
			n.devices = 5
			m.steer(change)
			m.run(100, func() bool { return m.node(0).State == state })
			n.Refused, n.Unschedulable, n.CordonedBy = why, true, "roll"
			m.pass()
			if got := m.node(0); got.State != state || got.Message != why {
				t.Errorf("%+v", got)
			}
			m.pass()
			m.pass()
			want := ""
			if state == v1alpha1.RollRestoring {
				want = "pool gpu.example.com/node-0 has 5 devices, and had 4"
			}
			if got := m.node(0); n.Unschedulable || got.Message != want {
				t.Errorf("%+v", got)
			}
		})
	}
}
