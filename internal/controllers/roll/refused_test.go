package roll

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
			decision := Decision{DeletePods: []Pod{m.nodes["node-0"].Pods[0]}}
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
