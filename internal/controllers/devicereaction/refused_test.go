package devicereaction

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
)

// TestRefusedRestart: a refusal of the admission check for driver pods is kept for the message of the device, and
// makes no event; a pod whose name another has by now has gone.
func TestRefusedRestart(t *testing.T) {
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: `admission webhook "driverpods.dra-steward.io" denied the request: Pod "plugin": 1 claim is prepared`}}
	for name, tt := range map[string]struct {
		err     error
		refused string
		events  int
	}{
		"deleted":     {nil, "", 1},
		"refused":     {refusal, "1 claim is prepared", 0},
		"another pod": {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "plugin", errors.New("the UID in the precondition (1) does not match the UID in record (2)")), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			events := record.NewFakeRecorder(8)
			c := &Controller{options: Options{Restarts: &RestartOptions{Client: client}, Recorder: events}, refused: map[string]map[types.UID]string{"xid": {"before": "refused"}}}
			r := &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: "xid"}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "plugin", UID: "plugin"}}
			if err := c.actRestarts(t.Context(), r, reaction.Decision{Restart: []*corev1.Pod{pod}}); (err == nil) != (tt.refused == "") {
				t.Error(err)
			}
			got := c.refused["xid"]["plugin"]
			if !strings.Contains(got, tt.refused) || (got == "") != (tt.refused == "") || c.refused["xid"]["before"] != "" || len(events.Events) != tt.events {
				t.Errorf("%v, %d events", c.refused, len(events.Events))
			}
		})
	}
}
