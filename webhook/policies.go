package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/ruleid"
)

// policyConfigMaps checks ConfigMaps with policies and passes all other requests on.
type policyConfigMaps struct {
	Options
	next  admission.Handler
	check func(context.Context, *corev1.ConfigMap) error
}

// PolicyConfigMaps returns a handler for ConfigMaps with policies before another one for
// the rest. check returns the problem that the policies have once a ConfigMap is stored.
func PolicyConfigMaps(next admission.Handler, check func(context.Context, *corev1.ConfigMap) error, o Options) admission.Handler {
	return policyConfigMaps{o, next, check}
}

// Handle refuses a ConfigMap whose policies are not valid.
func (p policyConfigMaps) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Kind.Kind != "ConfigMap" || req.Kind.Group != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return p.next.Handle(ctx, req)
	}
	if cheap(ctx) {
		return admission.Allowed("") // it is checked again before it is loaded
	}
	var configMap corev1.ConfigMap
	if err := json.Unmarshal(req.Object.Raw, &configMap); err != nil {
		return errored(p.toldError(ctx, err))
	}
	configMap.Namespace, configMap.Name = req.Namespace, req.Name
	err := p.check(ctx, &configMap)
	if err == nil {
		return admission.Allowed("")
	}
	if !p.tells(ctx) {
		p.Log.Info("refused a ConfigMap whose policies are not valid", "name", req.Name, "user", req.UserInfo.Username, "error", err.Error())
		err = errors.New("details are not shown")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: named("the policies are not valid; the current ones stay in force: "+err.Error(), ruleid.PolicyConfigMap),
	}}}
}
