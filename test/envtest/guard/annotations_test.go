package guard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	resourceapi "k8s.io/api/resource/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy writes down who created which claim and what webhooks say of it.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create]
  resources: [{group: resource.k8s.io, resources: [resourceclaims]}]
- level: None
`

// TestAuditAnnotations: the audit log of the API server has what was refused and what an
// exemption let pass, with its place in the configuration.
func TestAuditAnnotations(t *testing.T) {
	_, admin, _ := guarded(t, map[string]any{
		"policies":   map[string]any{"modes": map[string]any{"DRA-TOL-004": "audit"}},
		"exemptions": []any{map[string]any{"rules": []any{"DRA-TOL-001"}, "namespaces": []any{"audited"}, "reason": "until the queue is split", "expires": "2099-12-31T00:00:00Z"}}})
	jane := editor(t, admin, "audited", "refused")
	for _, name := range []string{"audited", "refused"} {
		_, _ = jane.ResourceV1().ResourceClaims(name).Create(t.Context(), in(name, claim("in-the-log", resourceapi.DeviceToleration{})), dryRun)
	}
	wants := map[string]map[string]string{
		"audited": {"claims.validate.dra-steward.io/exempted": "DRA-TOL-001): exemptions[0]", "claims.validate.dra-steward.io/findings": "audit: spec.devices.requests[gpu].exactly.tolerations[0]"},
		"refused": {"claims.validate.dra-steward.io/findings": "error: spec.devices.requests[gpu].exactly.tolerations[0].key: a toleration with an empty key tolerates every taint"},
	}
	eventually(t, "the audit log has both", func(context.Context) (bool, error) {
		found := map[string]map[string]string{}
		for _, event := range testaudit.Entries[auditv1.Event](t, cluster.AuditLog(), 0) {
			if event.User.Username != "jane" || event.ObjectRef == nil || wants[event.ObjectRef.Namespace] == nil {
				continue
			}
			annotations := wants[event.ObjectRef.Namespace]
			all := true
			for key, want := range annotations {
				all = all && strings.Contains(event.Annotations[key], want)
			}
			if all {
				found[event.ObjectRef.Namespace] = event.Annotations
			}
		}
		if len(found) == len(wants) {
			t.Log(found)
		}
		return len(found) == len(wants), nil
	})
}
