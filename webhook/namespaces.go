package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// namespaces judges changes of the labels of namespaces and hands all else on.
type namespaces struct {
	next    admission.Handler
	source  Source
	log     logr.Logger
	metrics *Metrics
}

// Namespaces returns a handler for namespaces, of which not everybody may change the
// protected labels, before another one for the rest. metrics may be nil.
func Namespaces(next admission.Handler, source Source, log logr.Logger, metrics *Metrics) admission.Handler {
	return namespaces{next, source, log, metrics}
}

// Handle refuses a change of a protected label by somebody else.
func (n namespaces) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Kind.Kind != "Namespace" || req.Kind.Group != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return n.next.Handle(ctx, req)
	}
	start := time.Now()
	response, verdict := n.answer(req)
	n.metrics.observe("validate", req, verdict, time.Since(start))
	return response
}

func (n namespaces) answer(req admission.Request) (admission.Response, string) {
	var before, after metav1.PartialObjectMetadata
	if err := json.Unmarshal(req.Object.Raw, &after); err != nil {
		return errored(err), verdictErrored
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, &before); err != nil {
			return errored(err), verdictErrored
		}
	}
	err := n.source().LabelChange(req.UserInfo, before.Labels, after.Labels)
	if err == nil {
		return admission.Allowed(""), verdictAllowed
	}
	n.log.V(1).Info("denied", "kind", "Namespace", "name", after.Name, "user", req.UserInfo.Username, "why", err.Error())
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error(),
	}}}, verdictDenied
}
