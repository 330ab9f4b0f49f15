package review

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestDrop: every lost value is named with its own place, what the stored object uses
// already is kept, and so is everything while the gate is on.
func TestDrop(t *testing.T) {
	drops := apiserver.Drops[*resourceapi.ResourceSlice]{{
		Gates:  []apiserver.Gate{"DRADeviceTaints"},
		Fields: []string{"spec.devices[].taints"},
		Uses:   func(slice *resourceapi.ResourceSlice) bool { return len(slice.Spec.Devices[0].Taints) > 0 },
		Remove: func(slice *resourceapi.ResourceSlice) {
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].Taints = nil
			}
		},
	}}
	slice := func() *resourceapi.ResourceSlice {
		taints := []resourceapi.DeviceTaint{{Key: "example.com/a", Effect: resourceapi.DeviceTaintEffectNone}}
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{
			{Name: "gpu-0", Taints: taints}, {Name: "1", Taints: taints}, {Name: "gpu-2"},
		}}}
	}
	old := apiserver.Profile{Minor: 35}
	for name, tt := range map[string]struct {
		stored  *resourceapi.ResourceSlice
		profile apiserver.Profile
		want    string
	}{
		"gate off":       {nil, old, "spec.devices[gpu-0].taints spec.devices[name=1].taints"},
		"gate on":        {nil, apiserver.Profile{}, ""},
		"stored already": {slice(), old, ""},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := drop(drops, tt.stored, slice(), tt.profile)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range findings {
				paths = append(paths, f.Path)
				if want := "dropped without the feature gate DRADeviceTaints in Kubernetes 1.35"; !strings.HasPrefix(f.Message, want) {
					t.Errorf("got  %s\nwant %s…", f.Message, want)
				}
			}
			if got := strings.Join(paths, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
