package capacity

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// TestTaintedMinutes: a last line has the device-minutes that taints took, if the history has them, and
// the documented format has its number.
func TestTaintedMinutes(t *testing.T) {
	one, many, none := 1, 90, 0
	for want, minutes := range map[string]*int{
		"taints took 1 device-minute in the last 24 hours\n":   &one,
		"taints took 90 device-minutes in the last 24 hours\n": &many,
		"taints took 0 device-minutes in the last 24 hours\n":  &none,
		"": nil,
	} {
		report := capacity.Inventory{TaintedMinutes: minutes}
		var text, document strings.Builder
		if err := (table{Inventory: report}).writeDetails(&text); err != nil || text.String() != want {
			t.Errorf("%q, %v, want %q", text.String(), err, want)
		}
		o := capacityOptions{output: "json"}
		if err := o.write(&document, report); err != nil || strings.Contains(document.String(), "taintedMinutes24h") != (minutes != nil) {
			t.Errorf("%s, %v", document.String(), err)
		}
	}
}
