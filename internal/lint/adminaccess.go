package lint

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/rules/rulebook"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// adminAccess reports requests with admin access in a namespace of the input that the API server refuses them in.
func (j *judgement) adminAccess(object manifest.Object) {
	namespace := j.world.namespace(object.GetNamespace())
	if namespace == nil || namespace.Labels[resourceapi.DRAAdminNamespaceLabelKey] == "true" {
		return
	}
	var requests []resourceapi.DeviceRequest
	at := "spec.devices.requests"
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		requests = object.Spec.Devices.Requests
	case *resourceapi.ResourceClaimTemplate:
		requests, at = object.Spec.Spec.Devices.Requests, "spec."+at
	}
	for i, r := range requests {
		if r.Exactly == nil || !ptr.Deref(r.Exactly.AdminAccess, false) {
			continue
		}
		item := r.Name
		if strings.Trim(item, "0123456789") == "" {
			item = fmt.Sprint(i)
		}
		j.add(review.Finding{Rule: rulebook.AdminNamespace, Severity: validate.Error, Path: at + "[" + item + "].exactly.adminAccess",
			Message: fmt.Sprintf("Forbidden: the namespace %q does not have the label %s: \"true\"", namespace.Name, resourceapi.DRAAdminNamespaceLabelKey)})
	}
}

// namespace is one of the input, or of --existing; nil if it is in neither.
func (w *world) namespace(name string) *corev1.Namespace {
	if w == nil {
		return nil
	}
	for _, n := range w.namespaces {
		if n.Name == name {
			return n
		}
	}
	return nil
}
