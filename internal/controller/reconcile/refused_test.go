package reconcile_test

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
)

// TestRefusedForNow: a refusal of a webhook is no conflict of names.
func TestRefusedForNow(t *testing.T) {
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: `admission webhook "driverpods.dra-steward.io" denied the request: Pod "a": claims are prepared`}}
	for err, want := range map[error]bool{
		refusal: true,
		apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("the UID in the precondition (1) does not match the UID in record (2)")): false,
		apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no")):                                                                  false,
	} {
		if got := reconcile.RefusedForNow(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if reconcile.RefusedForNow(nil) {
		t.Error("nil is a refusal")
	}
}
