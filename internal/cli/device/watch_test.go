package device

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestByDevice: a device with several taints is one part, which a removed taint changes; the
// header and the totals are parts, too.
func TestByDevice(t *testing.T) {
	taint := func(key string) tracker.Taint {
		return tracker.Taint{DeviceTaint: resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNone}}
	}
	all := []deviceReport{{Device: "gpu-0", Taints: []tracker.Taint{taint("a"), taint("b")}, Patched: []patchedReport{{Name: "c"}}}, {Device: "gpu-1"}}
	for _, headers := range []bool{true, false} {
		lines, err := cmdutil.Lines(func(out io.Writer) error { return writeDevicesText(out, all, false, headers) })
		if err != nil {
			t.Fatal(err)
		}
		parts := byDevice(slices.Clone(lines), all, headers)
		want := 2
		if headers {
			want = 4
		}
		var text bytes.Buffer
		if err := writeDevicesText(&text, all, false, headers); err != nil {
			t.Fatal(err)
		}
		if len(parts) != want || strings.Join(parts, "") != text.String() {
			t.Errorf("headers %t: %d parts:\n%s", headers, len(parts), strings.Join(parts, "--\n"))
		}
	}
}
