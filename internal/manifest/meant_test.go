package manifest_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// TestDidYouMean: an error suggests at most three names, the nearest first.
func TestDidYouMean(t *testing.T) {
	devices := []string{"node-1/gpu-10", "node-1/gpu-1", "node-1/gpu-11", "node-1/gpu-12", "node-2/nic-0"}
	for _, test := range []struct {
		word  string
		names []string
		want  string
	}{
		{"node-1/gpu-13", devices, `; did you mean "node-1/gpu-10" or "node-1/gpu-1" or "node-1/gpu-11"?`},
		{"NODE-2/NIC-0", devices[1:], `; did you mean "node-2/nic-0" or "node-1/gpu-1" or "node-1/gpu-11"?`},
		{"claim-tolerations", []string{"claim-devices-max", "request-tolerations-max", "slice-name"}, `; did you mean "claim-devices-max" or "request-tolerations-max"?`},
		{"abc", []string{"vwxyz"}, ""},
		{"abc", nil, ""},
	} {
		if got := manifest.DidYouMean(test.word, test.names); got != test.want {
			t.Errorf("%s: got %s, want %s", test.word, got, test.want)
		}
	}
}
