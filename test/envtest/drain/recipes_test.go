package drain_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const recipes = "../../../docs/reactions"

// recipe reacts as a file of the page says, in the mode Act, to devices of the driver of the test, after
// a shorter time.
func (s site) recipe(file string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(recipes, file))
	do(s, err)
	r := &v1alpha1.DeviceReaction{}
	do(s, yaml.UnmarshalStrict([]byte(strings.NewReplacer("gpu.example.com", s.driver, "gpu.nvidia.com\"", s.driver+"\"", "driver: gpu.nvidia.com", "driver: "+s.driver).Replace(string(text))), r))
	if r.Spec.Mode != v1alpha1.ReactionObserve {
		s.Errorf("%s: the mode is %s", file, r.Spec.Mode)
	}
	s.react(func(spec *v1alpha1.DeviceReactionSpec) {
		*spec = r.Spec
		spec.Mode, spec.When.For = v1alpha1.ReactionAct, &metav1.Duration{Duration: 5 * time.Second}
		spec.Brake = v1alpha1.ReactionBrake{PercentOfDriver: ptr.To[int32](100), Devices: ptr.To[int32](100)} // other tests have reactions, too
		if spec.Selector == nil {
			spec.Selector = &v1alpha1.DrainSelector{Driver: &s.driver}
		}
	})
}

// monitor sets a condition of a node, as its monitor writes it, and takes it back at the end.
func (s site) monitor(node, kind, reason, message string) {
	s.Helper()
	set := func(ctx context.Context, status corev1.ConditionStatus) error {
		patch := fmt.Sprintf(`{"status": {"conditions": [{"type": %q, "status": %q, "reason": %q, "message": %q}]}}`, kind, status, reason, message)
		return s.create(c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))
	}
	do(s, set(s.Context(), corev1.ConditionTrue))
	s.Cleanup(func() { _ = set(context.WithoutCancel(s.Context()), corev1.ConditionFalse) })
}

// TestReactionRecipes runs each recipe of the page: its cause, as the programs that it names write it, and
// played here, drains exactly the device that it is about.
func TestReactionRecipes(t *testing.T) {
	run := map[string]func(site){
		"xid.yaml": func(s site) { s.sick(0, 1) },
		"prove.yaml": func(s site) {
			s.sick(0, 1)
			s.proofIs(0, 1, 1, v1alpha1.ProofRunning)
		},
		"nvidia.yaml": func(s site) {
			s.taint(0, resourceapi.DeviceTaint{Key: "gpu.nvidia.com/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule}, 1)
		},
		"condition.yaml": func(s site) {
			s.monitor("node-0", "GPUProblem", "XIDError", "NVRM: Xid 79 on GPU-0-1: GPU has fallen off the bus")
		},
		"nvsentinel.yaml": func(s site) {
			s.monitor("node-0", "SysLogsXIDError", "SysLogsXIDErrorIsNotHealthy",
				"ErrorCode:79 PCI:0000:01:00 GPU_UUID:GPU-0-1 NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus Recommended Action=RESTART_BM;")
		},
	}
	files, err := filepath.Glob(filepath.Join(recipes, "*.yaml"))
	if err != nil || len(files) != len(run) {
		t.Fatalf("%d recipes, and %d are run: %v", len(files), len(run), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "recipe-"+strings.TrimSuffix(name, ".yaml"), 4)
			s.identify(0)
			s.recipe(name)
			run[name](s)
			drain := s.theDrain()
			s.wait(drain, "Cordoned=True Cordoned")
			s.state(0, 1, v1alpha1.ReactionDrained)
			if made := s.made(t.Context()); len(made) != 1 || len(s.reaction(t.Context()).Status.Devices) != 1 {
				t.Errorf("%d drains, %+v", len(made), s.reaction(t.Context()).Status.Devices)
			}
		})
	}
}
