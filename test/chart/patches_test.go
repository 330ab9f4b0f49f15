package chart_test

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/test/chart"
)

// TestPatchesInSlices: the mode is one argument of webhook and controller, and one right;
// what would apply patches twice, or never, does not render.
func TestPatchesInSlices(t *testing.T) {
	const write = "Slices are written without a change"
	values := func(mode string, more map[string]any) map[string]any {
		all := map[string]any{"patches": map[string]any{"mode": mode}}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	for mode, rights := range map[string]bool{"none": false, "materialize": true, "restore": true} {
		files, err := chart.Manifests(values(mode, nil), chart.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(files["templates/controller-clusterrole.yaml"], write); got != rights {
			t.Errorf("%s: right to write slices %t, want %t", mode, got, rights)
		}
		const records = "dra-steward-controller-patches" // and a number
		for _, name := range []string{"role.yaml", "controller-role.yaml", "deployment.yaml", "controller-deployment.yaml"} {
			if got := strings.Contains(files["templates/"+name], records); got != rights {
				t.Errorf("%s: %s names the ConfigMaps of what drivers said: %t, want %t", mode, name, got, rights)
			}
		}
		if got := strings.Contains(files["templates/deployment.yaml"], "--patch-writer=system:serviceaccount:dra-steward:dra-steward-controller\n"); got != rights {
			t.Errorf("%s: the webhook knows who has patches written: %t, want %t", mode, got, rights)
		}
		for _, name := range []string{"deployment.yaml", "controller-deployment.yaml"} {
			if !strings.Contains(files["templates/"+name], "--patches="+mode) {
				t.Errorf("%s: %s has another mode", mode, name)
			}
		}
	}
	scheduler := func(patches bool) map[string]any {
		return map[string]any{"scheduler": map[string]any{"enabled": true, "profiles": []any{map[string]any{"schedulerName": "a", "patches": patches}}}}
	}
	for name, tt := range map[string]struct {
		values map[string]any
		want   string
	}{
		"both":              {values("materialize", scheduler(true)), "choose one"},
		"scheduler without": {values("materialize", scheduler(false)), ""},
		"changing over":     {values("restore", scheduler(true)), ""},
		"no patches read":   {values("materialize", map[string]any{"liveData": map[string]any{"enabled": false}}), "needs liveData.enabled"},
		"no controller":     {values("restore", map[string]any{"controller": map[string]any{"enabled": false}, "certificates": map[string]any{"mode": "certManager"}}), "needs controller.enabled"},
	} {
		_, err := chart.Manifests(tt.values, chart.Options{KubeVersion: "1.37.0"})
		if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
