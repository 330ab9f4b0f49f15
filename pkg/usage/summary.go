package usage

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/guard"
)

// maxPodNames is how many pods a summary names: who wants all has the Impact.
const maxPodNames = 10

// Summary is the impact as the guard's thresholds, its policies and people are told.
// published says how many devices a driver publishes; nil if nobody knows.
func (i Impact) Summary(published func(driver string) int) guard.Impact {
	s := guard.Impact{
		Counts:         guard.Counts{Devices: len(i.Devices), Claims: len(i.Claims), Pods: len(i.Pods), Namespaces: len(i.Namespaces)},
		NamespaceNames: i.Namespaces,
	}
	for _, pod := range i.Pods[:min(len(i.Pods), maxPodNames)] {
		s.PodNames = append(s.PodNames, pod.String())
	}
	for _, b := range i.Budgets {
		s.Budgets = append(s.Budgets, guard.Budget(b))
	}
	for n, device := range i.Devices { // they are in the order of their drivers
		if published != nil && (n == 0 || i.Devices[n-1].Driver != device.Driver) {
			s.DriverDevices += published(device.Driver)
		}
	}
	return s
}

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
