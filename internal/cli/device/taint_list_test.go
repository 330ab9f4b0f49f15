package device

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// TestListRules: what rules select, their owner and their end; a hostile text stays in its cell.
func TestListRules(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	rule := func(name string, s *resourceapi.DeviceTaintSelector, annotations map[string]string) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at, Annotations: annotations},
			Spec: resourceapi.DeviceTaintRuleSpec{DeviceSelector: s, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	}
	var out strings.Builder
	err := taintOptions{output: "text"}.writeRules(cmdutil.Streams{Out: &out}, []*resourceapi.DeviceTaintRule{
		rule("a", &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new("node-1"), Device: new("gpu-0")}, map[string]string{
			v1alpha1.OwnerAnnotation: "team gpu", v1alpha1.ReasonAnnotation: "fan", v1alpha1.TicketAnnotation: "OPS-1", v1alpha1.ExpiresAnnotation: "2026-12-31T18:00:00Z"}),
		rule("b", &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Device: new("gpu-0")}, map[string]string{v1alpha1.ExpiresAnnotation: "soon"}),
		rule("c", nil, map[string]string{v1alpha1.OwnerAnnotation: "x\n\x1b[31mred\tcell"}),
		rule("d", &resourceapi.DeviceTaintSelector{}, nil),
	})
	want := `NAME  TAINT                          DEVICES                       OWNER           REASON  TICKET  CREATED               EXPIRES
a     example.com/broken:NoSchedule  gpu.example.com/node-1/gpu-0  team gpu        fan     OPS-1   2026-11-23T12:00:00Z  2026-12-31T18:00:00Z
b     example.com/broken:NoSchedule  gpu.example.com/*/gpu-0       -               -       -       2026-11-23T12:00:00Z  not a time
c     example.com/broken:NoSchedule  none                          x \u001b[31mred cell  -       -       2026-11-23T12:00:00Z  never
d     example.com/broken:NoSchedule  all                           -               -       -       2026-11-23T12:00:00Z  never
`
	if err != nil || strings.Join(strings.Fields(out.String()), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
