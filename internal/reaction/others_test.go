package reaction

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestOtherDrainEnds: another drain has its devices until it ends and lifts its cordon.
func TestOtherDrainEnds(t *testing.T) {
	name, ended := v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-0"}, metav1.NewTime(time.Unix(1e9, 0))
	for text, tt := range map[string]struct {
		atEnd      v1alpha1.DrainEnd
		completion *metav1.Time
		dryRun     bool
		has        bool
	}{
		"it drains":               {atEnd: v1alpha1.EndUncordon, has: true},
		"it has ended":            {atEnd: v1alpha1.EndUncordon, completion: &ended},
		"it has ended, and holds": {atEnd: v1alpha1.EndHold, completion: &ended, has: true},
		"by default it holds":     {completion: &ended, has: true},
		"a dry run":               {dryRun: true},
	} {
		t.Run(text, func(t *testing.T) {
			d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "firmware"}, Spec: v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{name}, AtEnd: tt.atEnd, DryRun: tt.dryRun}}
			d.Status.CompletionTime = tt.completion
			in := Input{Others: map[v1alpha1.DeviceName]string{}}
			if in.AddDrain(d, "xid"); (in.Others[name] == "firmware") != tt.has {
				t.Errorf("others: %v", in.Others)
			}
		})
	}
}
