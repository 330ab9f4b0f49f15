package taints

import (
	"fmt"
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Same reports whether a taint is the one that is asked for: value and effect count if they
// are asked for.
func Same(taint, asked resourceapi.DeviceTaint) bool {
	return taint.Key == asked.Key && (asked.Value == "" || asked.Value == taint.Value) && (asked.Effect == "" || asked.Effect == taint.Effect)
}

// Others says of each source of a taint on devices of a target, once, why "dra-steward
// untaint" leaves it alone and what can be done. The rule called ours is left out.
func Others(devices iter.Seq[tracker.Device], target Target, asked resourceapi.DeviceTaint, ours string) (problems []error) {
	seen := map[tracker.Source]bool{}
	for d := range devices {
		id := usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}
		if !target.Has(id) {
			continue
		}
		for _, taint := range d.Taints() {
			if !Same(taint.DeviceTaint, asked) || seen[taint.Source] {
				continue
			}
			seen[taint.Source] = true
			if taint.Source.Kind != tracker.DriverSource && taint.Source.Name == ours {
				continue
			}
			if taint.Source.Kind == tracker.DriverSource {
				problems = append(problems, fmt.Errorf("%s: the driver %s publishes the taint %s, and only the driver can remove it: "+
					"repair the device, or have the driver acknowledge it (many drivers forget taints when their kubelet plugin restarts); "+
					"to use the device anyway, let the claims tolerate %s", id, d.Driver(), taint.Key, taint.Key))
				continue
			}
			problems = append(problems, fmt.Errorf("%s: the taint %s comes from the DeviceTaintRule %s, which \"dra-steward taint\" did not write for %s: "+
				"kubectl delete devicetaintrule %s, if it is not needed", id, taint.Key, taint.Source.Name, target, taint.Source.Name))
		}
	}
	return problems
}
