package guard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// DefaultWindow is how long an eviction counts together with those that begin after it;
// MaxWindow bounds what a site may configure.
const (
	DefaultWindow = 10 * time.Minute
	MaxWindow     = time.Hour
)

// day is how far ahead a message names a time of day.
const day = 24 * time.Hour

// A Device is the name of a device.
type Device struct{ Driver, Pool, Name string }

// A Pod is known by its UID: the pod of a StatefulSet that follows one that was evicted has the same name.
type Pod struct {
	types.NamespacedName
	UID types.UID
}

// A Hit is what an eviction affects. Nothing is listed twice.
type Hit struct {
	Devices []Device
	Claims  []types.NamespacedName
	Pods    []Pod
	// Paced is true for a drain that evicts at no more than its default rate: one pod after the
	// other, within PodDisruptionBudgets, until it is paused.
	Paced bool
}

// pacedFactor is how many times the thresholds of pods and namespaces apply to a sum with paced
// evictions. It lets the maintenance of three nodes with eight pods each begin at once.
const pacedFactor = 2

// Begun returns the evictions that count together with one of an object that begins at a time, no earlier than now, and when
// the last one began for which there was no room.
type Begun func(object string, at time.Time) (starts []Start, omitted time.Time)

// With adds evictions that begin at any of these times; b may be nil.
func (b Begun) With(more []Start) Begun {
	return func(object string, at time.Time) (starts []Start, omitted time.Time) {
		if b != nil {
			starts, omitted = b(object, at)
		}
		return append(starts, more...), omitted
	}
}

// A Start is an eviction that has begun.
type Start struct {
	// Object is such as "DeviceTaintRule broken".
	Object string
	Time   time.Time
	Hit    Hit
}

// A Window sums the evictions that began within a time.
type Window struct {
	// Length is how long an eviction counts; 0 sums nothing.
	Length     time.Duration
	Thresholds Thresholds
	// Published returns how many devices a driver publishes; nil knows of none.
	Published func(driver string) int
	// Omitted is when the last eviction began that could not be remembered; zero if there is
	// none. While it is within the window, the sum is larger than what is counted.
	Omitted time.Time
}

// MostStarts is how many evictions a window remembers, MostPods how many pods in all of them.
const (
	MostStarts = 1000
	MostPods   = 100_000
)

// A Write is one that is to be checked for what it evicts.
type Write struct {
	// Object is a pointer to a DeviceTaintRule or DeviceDrain.
	Object any
	// Acknowledged is what it acknowledges, nil for nothing.
	Acknowledged *Ceiling
	Window       Window
	Now          time.Time
	// DryRun is true if nothing will be stored.
	DryRun bool
	// Bytes is the size of the object in the request.
	Bytes int
}

// A Sum is what the evictions of a window affect together with a new one.
type Sum struct {
	Counts
	// Length is that of the window.
	Length time.Duration
	// Others are the evictions that began before, the one with most pods first.
	Others []Start
	// Over is what is too large, Until when it is no longer; zero if waiting for a day does not help.
	Over  []Excess
	Until time.Time
	// ahead is true if some of the others have not begun.
	ahead bool
}

// Exceeds returns the sum of a new eviction with those that began within the window, if that
// is too large; false if it is not, and if the new eviction adds nothing to the others. An
// acknowledgement, nil for none, is about the sum.
func (w Window) Exceeds(now time.Time, hit Hit, acknowledged *Ceiling, starts []Start) (Sum, bool) {
	recent := w.recent(now, starts)
	before := unionOf(recent)
	if !hit.Paced { // a drain that gets faster adds its pods to those that are evicted at once
		before = unionOf(atOnce(recent))
	}
	if len(recent) == 0 && !w.omits(now) || before.contains(hit) {
		return Sum{}, false
	}
	sum := w.sum(hit, acknowledged, recent)
	omits := w.omits(now) && (acknowledged == nil || acknowledged.Pods == nil)
	if len(sum.Over) == 0 && !omits {
		return Sum{}, false
	}
	if sum.Until = w.until(hit, acknowledged, recent, omits); sum.Until.Sub(now) >= day {
		sum.Until = time.Time{}
	}
	sum.ahead = slices.ContainsFunc(recent, func(s Start) bool { return s.Time.After(now) })
	if omits {
		sum.Over = append(sum.Over, Excess{What: evictions})
	}
	slices.SortStableFunc(sum.Others, func(a, b Start) int { return cmp.Compare(len(b.Hit.Pods), len(a.Hit.Pods)) })
	return sum, true
}

// FirstExcess returns the first sum that is too large of an eviction that begins at several times.
func (w Window) FirstExcess(now time.Time, s Step, begun Begun) (Sum, bool) {
	hit := s.Hit.Pace(s.PerMinute, w.Length)
	begins := s.Begins
	if begins == nil {
		begins = []time.Time{now}
	}
	for _, at := range begins {
		var starts []Start
		starts, w.Omitted = begun(s.Object, at)
		if sum, exceeds := w.Exceeds(now, hit, s.Acknowledged, starts); exceeds {
			return sum, true
		}
	}
	return Sum{}, false
}

// omits reports whether an eviction of the window is not counted.
func (w Window) omits(now time.Time) bool {
	return !w.Omitted.IsZero() && now.Sub(w.Omitted) < w.Length
}

// until returns when a new eviction is within the thresholds, zero if it never is.
func (w Window) until(hit Hit, acknowledged *Ceiling, recent []Start, omits bool) (until time.Time) {
	if omits {
		until = w.Omitted.Add(w.Length)
	}
	if len(w.sum(hit, acknowledged, recent).Over) == 0 {
		return until
	}
	for i, start := range recent {
		if len(w.sum(hit, acknowledged, recent[i+1:]).Over) > 0 {
			continue
		}
		if at := start.Time.Add(w.Length); at.After(until) {
			return at
		}
		return until
	}
	return time.Time{}
}

// recent returns the starts within the window that affect something, the oldest first. Those in the future
// are recent, too: of a drain that waits, or of a clock that is ahead.
func (w Window) recent(now time.Time, starts []Start) (recent []Start) {
	for _, start := range starts {
		if max(now.Sub(start.Time), 0) < w.Length && len(start.Hit.Devices)+len(start.Hit.Pods) > 0 {
			recent = append(recent, start)
		}
	}
	slices.SortStableFunc(recent, func(a, b Start) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Object, b.Object)) })
	return recent
}

// sum counts what is affected once, by however many objects. The share of the devices is that of
// the driver, among those of the new eviction, with the largest one: devices of other
// drivers would dilute it.
func (w Window) sum(hit Hit, acknowledged *Ceiling, others []Start) Sum {
	all := unionOf(others)
	all.add(hit)
	s := Sum{Length: w.Length, Others: slices.Clone(others), Counts: Counts{
		Devices: len(all.devices), Claims: len(all.claims), Pods: len(all.pods), Namespaces: len(all.namespaces()),
	}}
	s.Over = w.exceeded(hit, acknowledged, others, s.Counts)
	if w.Published == nil {
		return s
	}
	var worst []Excess
	devices := all.byDriver()
	for _, driver := range slices.Sorted(maps.Keys(unionOf([]Start{{Hit: hit}}).byDriver())) {
		share := w.Thresholds.Exceeded(Counts{Devices: devices[driver], DriverDevices: w.Published(driver)}, acknowledged)
		share = slices.DeleteFunc(share, func(e Excess) bool { return e.What != percent })
		if len(share) > 0 && (worst == nil || share[0].Count > worst[0].Count) {
			worst, s.DriverDevices = share, w.Published(driver)
		}
	}
	s.Over = append(s.Over, worst...)
	return s
}

// exceeded compares a sum with the thresholds. Pods that are evicted at once count among
// themselves, too.
func (w Window) exceeded(hit Hit, acknowledged *Ceiling, others []Start, all Counts) []Excess {
	thresholds, unpaced := w.Thresholds, atOnce(others)
	if !hit.Paced && len(unpaced) == len(others) {
		return thresholds.Exceeded(all, acknowledged)
	}
	thresholds.Pods *= pacedFactor
	thresholds.Namespaces *= pacedFactor
	over := thresholds.Exceeded(all, acknowledged)
	if len(over) > 0 || hit.Paced {
		return over
	}
	u := unionOf(unpaced)
	u.add(hit)
	return w.Thresholds.Exceeded(Counts{Devices: len(u.devices), Claims: len(u.claims), Pods: len(u.pods), Namespaces: len(u.namespaces())}, acknowledged)
}

// atOnce returns the starts that are not paced.
func atOnce(starts []Start) []Start {
	return slices.DeleteFunc(slices.Clone(starts), func(s Start) bool { return s.Hit.Paced })
}

// String returns what is too large, by how much, and the remedy.
func (s Sum) String() string {
	var over, others []string
	for _, e := range s.Over {
		over = append(over, e.String())
	}
	for _, start := range s.Others {
		others = append(others, fmt.Sprintf("%s (%s)", start.Object, plural.Of(len(start.Hit.Pods), "pod")))
	}
	when := "began within the last"
	if s.ahead {
		when = "begin within"
	}
	text := fmt.Sprintf("together with the %s that %s %s, %s: %s; select fewer devices", plural.Of(len(others), "eviction"),
		when, minutes(s.Length), strings.Join(over, ", "), plural.List(others, someNames, len(others)))
	if !s.Until.IsZero() {
		// Up to the minute, so that the time that is read here is late enough.
		text += "; or wait until " + s.Until.UTC().Add(time.Minute-time.Nanosecond).Truncate(time.Minute).Format("15:04 MST")
	}
	return text + "; or, if this is intended, annotate it with " + CeilingOf(s.Counts).Annotate()
}

// minutes is such as "10m", for which time.Duration says 10m0s.
func minutes(d time.Duration) string {
	if text, whole := strings.CutSuffix(d.String(), "m0s"); whole {
		return text + "m"
	}
	return d.String()
}

// A union is what some evictions affect together.
type union struct {
	devices map[Device]bool
	claims  map[types.NamespacedName]bool
	pods    map[Pod]bool
}

func unionOf(starts []Start) union {
	u := union{map[Device]bool{}, map[types.NamespacedName]bool{}, map[Pod]bool{}}
	for i := range starts {
		u.add(starts[i].Hit)
	}
	return u
}

func (u union) add(hit Hit) {
	for _, device := range hit.Devices {
		u.devices[device] = true
	}
	for _, claim := range hit.Claims {
		u.claims[claim] = true
	}
	for _, pod := range hit.Pods {
		u.pods[pod] = true
	}
}

// contains reports whether a hit adds neither a device nor a pod.
func (u union) contains(hit Hit) bool {
	return !slices.ContainsFunc(hit.Devices, func(d Device) bool { return !u.devices[d] }) &&
		!slices.ContainsFunc(hit.Pods, func(p Pod) bool { return !u.pods[p] })
}

func (u union) namespaces() map[string]bool {
	all := map[string]bool{}
	for pod := range u.pods {
		if pod.Namespace != "" { // that of a pod that another process saw is not known
			all[pod.Namespace] = true
		}
	}
	return all
}

// byDriver counts the devices.
func (u union) byDriver() map[string]int {
	all := map[string]int{}
	for device := range u.devices {
		all[device.Driver]++
	}
	return all
}

// Namespaces is how many the pods are in.
func (h Hit) Namespaces() int { return len(unionOf([]Start{{Hit: h}}).namespaces()) }

// Without returns a hit without what another affects, in the order of the names.
func (h Hit) Without(other Hit) Hit {
	u := unionOf([]Start{{Hit: h}})
	for _, device := range other.Devices {
		delete(u.devices, device)
	}
	for _, claim := range other.Claims {
		delete(u.claims, claim)
	}
	for _, pod := range other.Pods {
		delete(u.pods, pod)
	}
	return u.hit()
}

func (u union) hit() Hit {
	names := func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}
	return Hit{
		Devices: slices.SortedFunc(maps.Keys(u.devices), func(a, b Device) int {
			return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
		}),
		Claims: slices.SortedFunc(maps.Keys(u.claims), names),
		Pods: slices.SortedFunc(maps.Keys(u.pods), func(a, b Pod) int {
			return cmp.Or(names(a.NamespacedName, b.NamespacedName), cmp.Compare(a.UID, b.UID))
		}),
	}
}

// AtRate returns the hit of what evicts at most so many pods per minute: not more pods than
// within a window. Claims and devices are not reduced, since which ones are first is open.
func (h Hit) AtRate(perMinute int, window time.Duration) Hit {
	most := int(float64(perMinute) * window.Minutes())
	h.Pods = h.Pods[:min(len(h.Pods), max(most, 0))]
	return h
}

// Pace bounds what is evicted at a rate; 0 evicts at once.
func (h Hit) Pace(perMinute int, window time.Duration) Hit {
	if perMinute <= 0 {
		return h
	}
	h = h.AtRate(perMinute, window)
	h.Paced = perMinute <= v1alpha1.DrainRate
	return h
}

// BeganCondition is the condition of a DeviceTaintRule with the time at which it began to evict
// what it evicts now. The controller writes it.
const BeganCondition = "dra-steward.io/Evicts"

// Began returns when a rule began to evict what it evicts now. A rule that was never changed began
// when it was created; one that was changed, when the controller saw that. known is false while
// the controller has not written it. The time of the taint does not count: authors set it.
func Began(rule *resourceapi.DeviceTaintRule) (began time.Time, known bool) {
	if rule.Generation <= 1 {
		return rule.CreationTimestamp.Time, true
	}
	written := apimeta.FindStatusCondition(rule.Status.Conditions, BeganCondition)
	if written == nil || written.Status != metav1.ConditionTrue || written.ObservedGeneration != rule.Generation ||
		written.LastTransitionTime.Before(&rule.CreationTimestamp) {
		return time.Time{}, false
	}
	return written.LastTransitionTime.Time, true
}

// A Step is an eviction that is about to begin.
type Step struct {
	// Object is what evicts, such as "DeviceDrain gpu", and Does how a message names that, such as "a
	// drain of node-1".
	Object, Does string
	// Hit is all that it affects, PerMinute how many pods it evicts per minute; 0 does not bound them.
	Hit       Hit
	PerMinute int
	// Begins are when it begins, the first time first; nil is now.
	Begins []time.Time
	// Acknowledged is what the object acknowledges that asks for it, nil for nothing, and Annotate
	// its name, such as "the roll".
	Acknowledged *Ceiling
	Annotate     string
}

// Refuse asks the thresholds about a step of a controller, by itself and with the evictions of the
// window. It returns why the step may not begin, empty if it may, and when it may if waiting helps.
func (w Window) Refuse(now time.Time, s Step, begun Begun) (why string, until time.Time) {
	counts := Counts{Devices: len(s.Hit.Devices), Claims: len(s.Hit.Claims), Pods: len(s.Hit.Pods), Namespaces: s.Hit.Namespaces()}
	if excess := w.Thresholds.Exceeded(counts, s.Acknowledged); len(excess) > 0 {
		var texts []string
		for _, e := range excess {
			texts = append(texts, e.String())
		}
		return s.Does + " evicts too many pods: " + strings.Join(texts, ", ") + "; if this is intended, annotate " + s.Annotate + " with " + CeilingOf(counts).Annotate(), time.Time{}
	}
	if sum, exceeds := w.FirstExcess(now, s, begun); exceeds {
		return s.Does + ", " + sum.String(), sum.Until
	}
	return "", time.Time{}
}
