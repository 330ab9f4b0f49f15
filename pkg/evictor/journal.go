package evictor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/memory/packed"
)

// A Journal persists the counts of evicted pods, so that the circuit breaker does not start
// from zero when the controller restarts. The controller writes it before evictions, with
// the names of the next pods, once for the pods of ten seconds. So it includes all evicted
// pods, and a pod in it that was not evicted still exists.
type Journal interface {
	// Load returns the last saved record, nothing if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the record. It is JSON.
	Save(ctx context.Context, record []byte) error
}

// A journalRecord is the content of a [Journal].
type journalRecord struct {
	Causes []recordedCause `json:"causes,omitempty"`
	// Next are the pods whose evictions follow.
	Next []recordedPod `json:"next,omitempty"`

	states []*podState // of Next
}

// A recordedCause has the counts of a DeviceTaintRule, or of the taints of a driver.
type recordedCause struct {
	// Rule is the UID of a rule, Driver a driver. One of them is set.
	Rule   types.UID `json:"rule,omitempty"`
	Driver string    `json:"driver,omitempty"`
	// Evicted are all pods, Pods those since the cause last was calm.
	Evicted int `json:"evicted,omitempty"`
	Pods    int `json:"pods,omitempty"`
	// Namespaces are those of Pods, Portions what they and those of the next pods count;
	// Devices and Claims are how many there are, of pending pods as well.
	Namespaces []string                   `json:"namespaces,omitempty"`
	Portions   map[string]recordedPortion `json:"portions,omitempty"`
	Devices    int                        `json:"devices,omitempty"`
	Claims     int                        `json:"claims,omitempty"`
	// Drivers are those of the devices.
	Drivers []string `json:"drivers,omitempty"`
	// Last is the time of the last change.
	Last time.Time `json:"last"`
}

// A recordedPortion is the part of one namespace: its evicted pods, and how many of them and
// of the next ones count in other namespaces.
type recordedPortion struct {
	Pods   int       `json:"pods,omitempty"`
	Weight int       `json:"weight,omitempty"`
	Last   time.Time `json:"last"`
	// Devices and Claims are those of the evicted pods. They are left out if a record has more than mostHashes.
	Devices hashes `json:"deviceHashes,omitempty"`
	Claims  hashes `json:"claimHashes,omitempty"`
}

// A recordedPod is one that is about to be evicted.
type recordedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Causes are indexes into the Causes of a [journalRecord].
	Causes []int `json:"causes"`
	// Devices and Claims are those of its reasons.
	Devices hashes `json:"deviceHashes,omitempty"`
	Claims  hashes `json:"claimHashes,omitempty"`
}

// mostRecorded is the maximum number of pods in a record, mostHashes that of the devices and claims of those that were
// evicted: 256 KiB.
const (
	mostRecorded = 1000
	mostHashes   = 1 << 14
)

// recordSpan is how long the pods of a record last at the maximum rate.
const recordSpan = 10 * time.Second

// record returns the record to save before first is evicted. The mutex is held.
func (c *Controller) record(first *podState, now time.Time) *journalRecord {
	perSecond := cmp.Or(c.options.Limits.PerSecond, defaultPerSecond)
	room := min(max(int(perSecond*recordSpan.Seconds()), 1), mostRecorded)
	next := []*podState{first}
	for known := range c.states.all() {
		if known != first && known.stage == acting {
			next = append(next, known)
		}
	}
	soon := slices.SortedFunc(slices.Values(c.states.queue), (*podState).compare)
	// The portions do not include the others yet.
	soon = slices.DeleteFunc(soon, func(known *podState) bool { return !known.soon() })
	return c.recordOf(append(next, soon[:min(room, len(soon))]...), now)
}

// soon reports whether the breaker counts the plan of a pod.
func (s *podState) soon() bool { return s.plan.verdict().within(s.until).Evict() }

// ended returns the record to save once none of the pods that the last one names is evicted any more, otherwise nil: one
// that ends later is not one of those that were evicted. The mutex is held.
func (c *Controller) ended(now time.Time) *journalRecord {
	if len(c.journaled) == 0 || now.Sub(c.saved) < recordSpan {
		return nil
	}
	for _, of := range c.journaled {
		if of.stage == acting || c.states.known(of) && of.stage == waiting && of.soon() {
			return nil
		}
	}
	return c.recordOf(nil, now)
}

// recordOf returns a record with the pods whose evictions follow. The mutex is held.
func (c *Controller) recordOf(next []*podState, now time.Time) *journalRecord {
	ofNext := map[cause]struct{}{}
	for _, known := range next {
		maps.Copy(ofNext, causes(known.plan.verdict()))
	}
	record, places := c.states.causes.record(ofNext, now)
	record.states = next
	for _, known := range next {
		pod := recordedPod{Namespace: known.pod.Namespace, Name: known.pod.Name, UID: known.uid}
		var its impact
		for _, r := range known.plan.verdict().Reasons {
			its.change(r, +1)
		}
		pod.Devices, pod.Claims = its.devices.hashes(), its.claims.hashes()
		for cause := range causes(known.plan.verdict()) {
			if place, ok := places[cause]; ok {
				pod.Causes = append(pod.Causes, place)
				of := record.Causes[place].Portions
				if its := c.states.causes.of(cause).window.portions[pod.Namespace]; its != nil && its.pods == its.pending {
					of[pod.Namespace] = its.record()
				}
			}
		}
		slices.Sort(pod.Causes)
		record.Next = append(record.Next, pod)
	}
	return record
}

// record returns a record of the causes of the next pods and of those that have evicted pods and are
// not calm, and their indexes in it. Of other causes a restart counts all pods again: they are
// pending. So the size depends on the rate of evictions, not on the number of rules.
func (s *causeStats) record(ofNext map[cause]struct{}, now time.Time) (*journalRecord, map[cause]int) {
	record, places, room := &journalRecord{}, map[cause]int{}, mostHashes
	for of, a := range s.byCause {
		calm := a.pending == 0 && now.Sub(a.window.last) >= breakerCalm
		if _, next := ofNext[of]; !next && (calm || a.window.pods == a.window.pending()) {
			continue
		}
		counts, portions, evicted := a.window.counts(), map[string]recordedPortion{}, []string(nil)
		for namespace, its := range a.window.portions {
			if its.pods > its.pending {
				evicted = append(evicted, namespace)
				portions[namespace] = its.record()
			}
		}
		slices.Sort(evicted)
		room = within(portions, room)
		places[of] = len(record.Causes)
		record.Causes = append(record.Causes, recordedCause{
			Rule: of.rule, Driver: of.driver, Evicted: a.evicted,
			Pods: a.window.pods - a.window.pending(), Namespaces: evicted, Portions: portions, Devices: counts.Devices, Claims: counts.Claims,
			Drivers: slices.Sorted(maps.Keys(a.window.drivers)), Last: a.window.last,
		})
	}
	return record, places
}

// within leaves out devices and claims for which a record has no room, and returns what room is left.
func within(portions map[string]recordedPortion, room int) int {
	size := 0
	for _, its := range portions {
		size += (len(its.Devices) + len(its.Claims)) / hashSize
	}
	if size <= room {
		return room - size
	}
	for namespace, its := range portions {
		its.Devices, its.Claims = nil, nil
		portions[namespace] = its
	}
	return room
}

func (s *portion) record() recordedPortion {
	return recordedPortion{Pods: s.pods - s.pending, Weight: s.weight(), Last: s.last.UTC().Truncate(time.Second),
		Devices: s.evicted.devices.hashes(), Claims: s.evicted.claims.hashes()}
}

// recallInterval is how often a journal that cannot be read is tried again.
const recallInterval = 10 * time.Second

// recalled loads the record of the previous controller. Without it the circuit breaker cannot
// count, so it waits until the journal can be read, and reports false if ctx ends before.
func (c *Controller) recalled(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, recallInterval, true, func(ctx context.Context) (bool, error) {
		err := c.recall(ctx)
		if ctx.Err() == nil {
			c.options.Metrics.journal(err)
		}
		if err != nil && ctx.Err() == nil {
			c.options.Logger.Error(err, "No pod is evicted until the eviction journal can be read", "retryAfter", recallInterval)
		}
		return err == nil, nil
	}) == nil
}

// recall loads the record of the previous controller.
func (c *Controller) recall(ctx context.Context) error {
	if c.options.Journal == nil {
		return nil
	}
	text, err := c.options.Journal.Load(ctx)
	if err != nil {
		return fmt.Errorf("evictor: load the eviction journal: %w", err)
	}
	var record journalRecord
	if len(text) > 0 {
		if err := json.Unmarshal(text, &record); err != nil {
			return fmt.Errorf("evictor: read the eviction journal: %w; delete it to start the circuit breaker from zero", err)
		}
	}
	for _, of := range record.Causes {
		if !of.valid() {
			return fmt.Errorf("evictor: read the eviction journal: a count of rule %q, driver %q is negative or contradicts another; delete it to start the circuit breaker from zero", of.Rule, of.Driver)
		}
	}
	for _, pod := range record.Next {
		if there := c.options.Usage.Pod(pod.Namespace, pod.Name); there != nil && there.UID == pod.UID && there.DeletionTimestamp == nil {
			continue
		}
		for _, place := range pod.Causes {
			if place >= 0 && place < len(record.Causes) {
				record.Causes[place].add(pod)
			}
		}
	}
	c.locked(func() {
		for _, of := range record.Causes {
			c.states.causes.recall(of)
		}
	})
	return nil
}

// add counts a pod that was evicted after the record was saved.
func (r *recordedCause) add(pod recordedPod) {
	namespace, exact := pod.Namespace, r.exact()
	r.Evicted++
	r.Pods++
	if !slices.Contains(r.Namespaces, namespace) {
		r.Namespaces = append(r.Namespaces, namespace)
	}
	if r.Portions == nil {
		r.Portions = map[string]recordedPortion{}
	}
	its := r.Portions[namespace]
	its.Pods, its.Weight = its.Pods+1, max(its.Weight, 1)
	if exact {
		its.Devices, its.Claims = its.Devices.with(pod.Devices), its.Claims.with(pod.Claims)
	}
	r.Portions[namespace] = its
}

// exact reports whether the devices and claims of all evicted pods are recorded.
func (r *recordedCause) exact() bool {
	pods := 0
	for _, its := range r.Portions {
		if its.Pods > 0 && len(its.Devices) == 0 {
			return false
		}
		pods += its.Pods
	}
	return pods == r.Pods
}

// valid reports whether no count is negative, and the portions have no more pods than there are.
func (r *recordedCause) valid() bool {
	rest := r.Pods
	for _, its := range r.Portions {
		if its.Pods < 0 || its.Weight < 0 || its.Pods > rest {
			return false
		}
		rest -= its.Pods
	}
	return min(r.Evicted, r.Pods, r.Devices, r.Claims) >= 0
}

func (s *causeStats) recall(r recordedCause) {
	a := s.of(cause{rule: r.Rule, driver: r.Driver})
	a.evicted, a.recalled = r.Evicted, r.Evicted
	a.window = newBreakerWindow()
	a.window.pods, a.window.last = r.Pods, r.Last
	if a.window.before.pods = r.Pods; !r.exact() {
		a.window.before.devices, a.window.before.claims = r.Devices, r.Claims
	}
	for _, namespace := range r.Namespaces {
		if its := r.Portions[namespace]; a.window.portions[namespace] == nil {
			pods := max(its.Pods, 1)
			a.window.before.pods = max(a.window.before.pods-pods, 0)
			a.window.change(namespace, func(of *portion) {
				of.pods, of.last = pods, its.Last
				if of.evicted.recall(its.Devices, its.Claims); r.exact() {
					of.impact.recall(its.Devices, its.Claims)
					a.window.impact.recall(its.Devices, its.Claims)
				} else {
					of.before = min(its.Weight, pods)
				}
				if its.Last.IsZero() {
					of.last = r.Last
				}
			})
		}
	}
	for _, driver := range r.Drivers {
		a.window.drivers[driver]++
	}
}

// ConfigMapJournal is a [Journal] in a ConfigMap of its own, with one API call per Save.
type ConfigMapJournal struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

const (
	// journalKey has the record in the Data of the ConfigMap, packedKey in its BinaryData. One of
	// them is empty.
	journalKey = "evictions"
	packedKey  = "evictions.json.gz"
	// mostPlain is the largest record, in bytes, that is not compressed, and mostPacked the largest
	// compressed one: a ConfigMap holds 1 MiB. mostUnpacked bounds what is read.
	mostPlain    = 256 << 10
	mostPacked   = 1000 << 10
	mostUnpacked = 64 << 20
)

// Load implements [Journal].
func (j ConfigMapJournal) Load(ctx context.Context) ([]byte, error) {
	kept, err := j.Client.CoreV1().ConfigMaps(j.Namespace).Get(ctx, j.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	key, text := journalKey, []byte(kept.Data[journalKey])
	if len(text) == 0 {
		key = packedKey
		text, err = packed.Text(kept.BinaryData[packedKey], mostUnpacked)
	}
	if err == nil && len(text) > 0 && !json.Valid(text) {
		err = errors.New("not JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %s: %w; delete the ConfigMap to start the circuit breaker from zero", j.Namespace, j.Name, key, err)
	}
	return text, nil
}

// Save implements [Journal]. It compresses a large record.
func (j ConfigMapJournal) Save(ctx context.Context, record []byte) error {
	data := []byte{}
	if len(record) > mostPlain {
		var fit int
		var err error
		data, fit, err = packed.Lines([][]byte{record}, mostPacked)
		if err == nil && fit == 0 {
			err = fmt.Errorf("the record is larger than %d bytes, compressed", mostPacked)
		}
		if err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
		}
		record = nil
	}
	// The empty one replaces what another client may have written.
	_, err := j.Client.CoreV1().ConfigMaps(j.Namespace).Apply(ctx, ac.ConfigMap(j.Name, j.Namespace).
		WithData(map[string]string{journalKey: string(record)}).WithBinaryData(map[string][]byte{packedKey: data}),
		metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	return nil
}
