package guard

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
)

// PublishedDevices counts the devices that each driver publishes, those of outdated
// generations of a pool apart. Slices of a pool must follow each other.
func PublishedDevices(slices iter.Seq[*resourceapi.ResourceSlice]) map[string]int {
	counts := map[string]int{}
	var driver, pool string
	var generation int64
	current := 0
	for slice := range slices {
		spec := &slice.Spec
		if spec.Driver != driver || spec.Pool.Name != pool || spec.Pool.Generation > generation {
			if spec.Driver == driver && spec.Pool.Name == pool {
				counts[driver] -= current
			}
			driver, pool, generation, current = spec.Driver, spec.Pool.Name, spec.Pool.Generation, 0
		}
		if spec.Pool.Generation == generation {
			current += len(spec.Devices)
			counts[driver] += len(spec.Devices)
		}
	}
	return counts
}
