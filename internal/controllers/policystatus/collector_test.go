package policystatus

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
)

// TestLongEvent: the text of an event is bounded, and cut between two characters.
func TestLongEvent(t *testing.T) {
	for _, before := range []string{"", "a"} {
		recorder := record.NewFakeRecorder(1)
		(&Collector{Recorder: recorder}).createEvent(&corev1.ConfigMap{}, policyoutcome.Event{Message: before + strings.Repeat("é", maxMessage)})
		_, got, _ := strings.Cut(<-recorder.Events, "PoliciesAccepted ")
		if !utf8.ValidString(got) || len(got) > maxMessage || !strings.HasSuffix(got, "é…") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}
