package device

import (
	"slices"
	"testing"
)

// printedWarnings keeps warnings.
type printedWarnings struct{ texts []string }

func (w *printedWarnings) HandleWarningHeader(_ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

// TestUnlessShown: taint prints the impact once, and all other warnings.
func TestUnlessShown(t *testing.T) {
	const impact = "affects 1 allocated device and 1 claim, no pods"
	printed := &printedWarnings{}
	handler := unlessShown{printed, &ruleWriter{shown: "NAMESPACE  POD\n" + impact + "\n"}}
	other := []string{
		"affects 2 allocated devices and 2 claims, no pods (dra-steward rule guard-impact)",
		"spec.taint.effect: evicts immediately (dra-steward rule DRA-RULE-003)",
		impact,
	}
	for _, text := range append([]string{impact + " (dra-steward rule guard-impact)"}, other...) {
		handler.HandleWarningHeader(299, "-", text)
	}
	if !slices.Equal(printed.texts, other) {
		t.Errorf("printed %q, want %q", printed.texts, other)
	}
}
