package evictor

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/guard"
)

// Calm is how long nothing may have been pending for a rule or a driver until what it
// has evicted no longer counts for the circuit breaker.
const Calm = 10 * time.Minute

// A wave is what one cause has hit since it last was calm: what is pending and what was
// evicted. That it counts both keeps a slow rate, or a workload that comes back again and
// again, from passing below the thresholds.
type wave struct {
	pods       int
	namespaces map[string]int
	drivers    map[string]int
	devices    distinct[DeviceID]
	claims     distinct[types.NamespacedName]
	last       time.Time
	// before is what the wave had hit when a controller before this one was ended; it is
	// among devices and claims as far as it is still pending.
	before struct{ devices, claims int }
}

func newWave() wave {
	return wave{namespaces: map[string]int{}, drivers: map[string]int{}}
}

// add counts a pod in (+1) or out (-1); pending is how many are without it.
func (w *wave) add(c *podCase, v Verdict, of cause, by, pending int, now time.Time) {
	if by > 0 && pending == 0 && now.Sub(w.last) >= Calm {
		*w = wave{}
	}
	if w.namespaces == nil {
		*w = newWave()
	}
	w.last = now
	w.pods += by
	change(w.namespaces, c.pod.Namespace, by)
	for _, r := range v.Reasons {
		if causeOf(r) == of {
			w.devices.change(r.Device, by)
			change(w.drivers, r.Device.Driver, by)
			w.claims.change(r.Claim, by)
		}
	}
}

func (w *wave) counts() guard.Counts {
	return guard.Counts{
		Devices: max(w.devices.count(), w.before.devices), Claims: max(w.claims.count(), w.before.claims),
		Pods: w.pods, Namespaces: len(w.namespaces),
	}
}

func change[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}
