package console

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
)

// TestCommandsAreWhole: half a command is wrong, and a page copies it.
func TestCommandsAreWhole(t *testing.T) {
	r, err := newRenderer(links{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		length int
		want   string
	}{{2000, strings.Repeat("x", 2000)}, {maxCommand + 1, "# the command is too long"}} {
		var out strings.Builder
		if err := r.write(&out, page{Template: "why", Fleet: &fleet.Fleet{}, Data: whyView{Command: strings.Repeat("x", tt.length)}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `<code class="command">`+tt.want) || tt.length > maxCommand && strings.Contains(out.String(), "xx") {
			t.Errorf("a command of %d characters: %.3000s", tt.length, out.String())
		}
	}
}
