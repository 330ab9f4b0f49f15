package evictor

import (
	"crypto/sha256"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// breakerCalm is how long a rule or a driver has no pending pods until the circuit breaker
// starts from zero, and how long before it is due a pod begins to count.
const breakerCalm = 10 * time.Minute

// countPeriod is how often the pods that become due are counted.
const countPeriod = 10 // seconds

// horizon is up to when pods are due that count, in seconds. Tolerations end by the wall
// clock, which runs while a machine is suspended.
func horizon(now time.Time) int64 { return now.Add(breakerCalm).Unix() }

// A breakerWindow has the impact of one cause since it last was calm: evicted pods and
// those that are due soon. It counts both so that neither a low rate nor a workload that
// restarts again and again stays below the thresholds. Pods that are due later do not
// count yet: a tenant chooses how long they tolerate a taint.
type breakerWindow struct {
	pods     int
	portions map[string]*portion
	drivers  map[string]int
	impact
	last time.Time
	// before is what the previous controller recorded without saying more: devices and claims, also of pods that were
	// pending, and pods whose namespace it did not record.
	before struct{ devices, claims, pods int }
}

// An impact is devices and claims, each with how many reasons it counts for.
type impact struct{ devices, claims distinct }

func (i *impact) change(r Reason, by int) {
	i.devices.change(hashOf(r.Device.Driver, r.Device.Pool, r.Device.Device), by)
	i.claims.change(hashOf(r.Claim.Namespace, r.Claim.Name, string(r.ClaimUID)), by)
}

// recall adds what a record has.
func (i *impact) recall(devices, claims hashes) {
	for value := range devices.all() {
		i.devices.change(value, +1)
	}
	for value := range claims.all() {
		i.claims.change(value, +1)
	}
}

// A portion is the part of one namespace.
type portion struct {
	// pods includes pending ones, which have not been evicted.
	pods, pending int
	impact
	// drivers are those of the devices; evicted is the impact of evicted pods.
	drivers map[string]int
	evicted impact
	last    time.Time
	// before is the weight that the previous controller recorded without the impact.
	before int
}

// weight is what a namespace counts in others: not more than it has claims or devices,
// however many pods use one of them, at once or one after the other.
func (s *portion) weight() int {
	return min(s.pods, s.before+min(s.devices.count(), s.claims.count()))
}

// active reports whether pods of the namespace are due soon, or recently were.
func (s *portion) active(now time.Time) bool {
	return s.pending > 0 || now.Sub(s.last) < breakerCalm
}

func newBreakerWindow() breakerWindow {
	return breakerWindow{portions: map[string]*portion{}, drivers: map[string]int{}}
}

// add adds (+1) or removes (-1) a pod; pend counts it as pending.
func (w *breakerWindow) add(namespace string, v Verdict, of cause, by int, now time.Time) {
	if by > 0 {
		w.calm(now)
	}
	if w.portions == nil {
		*w = newBreakerWindow()
	}
	w.last = now
	w.pods += by
	w.change(namespace, func(s *portion) {
		s.pods, s.last = s.pods+by, now
		for _, r := range v.Reasons {
			if causeOf(r) == of {
				w.impact.change(r, by)
				s.impact.change(r, by)
				change(w.drivers, r.Device.Driver, by)
				change(s.drivers, r.Device.Driver, by)
			}
		}
	})
}

// change changes the portion of a namespace.
func (w *breakerWindow) change(namespace string, f func(*portion)) {
	s := w.portions[namespace]
	if s == nil {
		s = &portion{drivers: map[string]int{}}
		w.portions[namespace] = s
	}
	f(s)
	if s.pods == 0 {
		delete(w.portions, namespace)
	}
}

// pend adds (+1) or removes (-1) a pending pod of those in the window.
func (w *breakerWindow) pend(namespace string, by int) {
	if s := w.portions[namespace]; s != nil {
		s.pending += by
	}
}

// evicts notes that a pod is evicted now.
func (w *breakerWindow) evicts(namespace string, now time.Time) {
	if s := w.portions[namespace]; s != nil {
		w.last, s.last = now, now
	}
}

// evicted notes the impact of a pod that was evicted.
func (w *breakerWindow) evicted(namespace string, v Verdict, of cause) {
	s := w.portions[namespace]
	if s == nil {
		return
	}
	for _, r := range v.Reasons {
		if causeOf(r) == of {
			s.evicted.change(r, +1)
		}
	}
}

// calm starts from zero if no namespace is active. While only one is, the others start from
// zero: a tenant whose pods always are due does not make the counts of others add up.
func (w *breakerWindow) calm(now time.Time) {
	only := ""
	for namespace, s := range w.portions {
		if !s.active(now) {
			continue
		}
		if only != "" {
			return
		}
		only = namespace
	}
	if only == "" && now.Sub(w.last) >= breakerCalm {
		*w = breakerWindow{}
	}
	for namespace, s := range w.portions {
		if namespace != only && only != "" {
			w.drop(namespace, s)
		}
	}
}

// drop removes a portion without pending pods.
func (w *breakerWindow) drop(namespace string, s *portion) {
	w.pods -= s.pods
	for driver, times := range s.drivers {
		change(w.drivers, driver, -times)
	}
	for device, times := range s.devices.times {
		w.devices.change(device, -times)
	}
	for claim, times := range s.claims.times {
		w.claims.change(claim, -times)
	}
	delete(w.portions, namespace)
}

// podsFor returns how many pods count for the evictions in a namespace, or in all of them, if
// limit are allowed. Another namespace counts at most half of that, so that it leaves room for
// others, and no two of them evict more than the limit together.
func (w *breakerWindow) podsFor(namespace string, limit int) int {
	sum := w.before.pods
	for name, s := range w.portions {
		if name == namespace {
			sum += s.pods
		} else {
			sum += min(s.weight(), (limit+1)/2)
		}
	}
	return sum
}

// pending returns the number of pods that have not been evicted.
func (w *breakerWindow) pending() (sum int) {
	for _, s := range w.portions {
		sum += s.pending
	}
	return sum
}

func (w *breakerWindow) counts() guard.Counts {
	return guard.Counts{
		Devices: max(w.devices.count(), w.before.devices), Claims: max(w.claims.count(), w.before.claims),
		Pods: w.pods, Namespaces: len(w.portions),
	}
}

func change[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// distinct counts different values by their hashes. The zero value is empty.
type distinct struct{ times map[hash]int }

func (d *distinct) count() int { return len(d.times) }

// change adds (+1) or removes (-1) a value.
func (d *distinct) change(value hash, by int) {
	if d.times == nil {
		d.times = map[hash]int{}
	}
	change(d.times, value, by)
}

// hashes are the values in the order of their hashes.
func (d *distinct) hashes() (all hashes) {
	for _, value := range slices.SortedFunc(maps.Keys(d.times), func(a, b hash) int { return strings.Compare(string(a[:]), string(b[:])) }) {
		all = append(all, value[:]...)
	}
	return all
}

// A hash stands for a value. Tenants and drivers choose names, so it is one for which they cannot find two values.
type hash [hashSize]byte

const hashSize = 16

// hashes are values, one after the other, which takes little room in a record.
type hashes []byte

func (h hashes) all() iter.Seq[hash] {
	return func(yield func(hash) bool) {
		for len(h) >= hashSize && yield(hash(h[:hashSize])) {
			h = h[hashSize:]
		}
	}
}

// with adds the values of others that are missing.
func (h hashes) with(others hashes) hashes {
	var all distinct
	for _, some := range []hashes{h, others} {
		for value := range some.all() {
			all.change(value, +1)
		}
	}
	return all.hashes()
}

// hashOf is the same in every process.
func hashOf(parts ...string) hash {
	var text []byte
	for _, part := range parts {
		text = append(append(text, part...), 0)
	}
	sum := sha256.Sum256(text)
	return hash(sum[:hashSize])
}
