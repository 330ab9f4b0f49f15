package reconcile

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RefusedForNow reports whether a webhook refused a deletion with the status of a conflict, as
// dra-steward does for the pod of a driver that has prepared claims. All other conflicts of a deletion
// say that another object has the name by now: what was to go has gone.
func RefusedForNow(err error) bool {
	return apierrors.IsConflict(err) && strings.HasPrefix(err.Error(), "admission webhook ")
}
