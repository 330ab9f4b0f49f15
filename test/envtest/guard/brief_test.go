package guard_test

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// TestBriefAnswers: an API server that presents no client certificate cannot be told from a pod
// that asks the webhook as any user. With webhooks.briefAnswers neither learns what the site
// allows; the author of a claim reads the field and the rule, and the log has the message.
func TestBriefAnswers(t *testing.T) {
	values := map[string]any{"policies": map[string]any{
		"modes":      map[string]any{"DRA-TOL-003": "deny"},
		"parameters": map[string]any{"DRA-TOL-003": map[string]any{"allowed": []any{"example.com/project-x"}}},
	}}
	for _, brief := range []bool{false, true} {
		values["webhooks"] = map[string]any{"briefAnswers": brief}
		t.Run(map[bool]string{false: "full", true: "brief"}[brief], func(t *testing.T) {
			log := &proc.Log{}
			g, admin, _ := guardedWith(t, log, values)
			tolerant := claim("tolerant", resourceapi.DeviceToleration{Key: "example.com/other", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule})
			_, err := editor(t, admin, "team").ResourceV1().ResourceClaims("team").Create(t.Context(), in("team", tolerant), dryRun)
			if err == nil || !strings.Contains(err.Error(), "DRA-TOL-003") || !strings.Contains(err.Error(), "tolerations") {
				t.Fatalf("the author reads %v, which lacks the rule or the field", err)
			}
			stranger := post(t, g, "/validate", review(t, "ResourceClaim", marshal(t, tolerant)))
			for who, said := range map[string]string{"the author": err.Error(), "a stranger": message(stranger)} {
				if strings.Contains(said, "project-x") == brief {
					t.Errorf("%s reads %s", who, said)
				}
			}
			if !strings.Contains(log.String(), "project-x") {
				t.Errorf("the log lacks the list:\n%s", log)
			}
		})
	}
}
