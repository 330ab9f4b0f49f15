package cmdutil

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestWarnings(t *testing.T) {
	var out strings.Builder
	w := warnings{rest.NewWarningWriter(&out, rest.WarningWriterOptions{})}
	w.HandleWarningHeader(299, "", "scheduling.k8s.io/v1beta1 PodGroup is deprecated in v1.38+, unavailable in v1.41+; use scheduling.k8s.io/v1 PodGroup")
	w.HandleWarningHeader(299, "", "unknown field \"spec.a\"")
	if got := out.String(); got != "Warning: unknown field \"spec.a\"\n" {
		t.Errorf("got %q", got)
	}
}
