package evictor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// A Journal keeps what must not be forgotten when a controller is killed: how many pods
// were evicted, without which the circuit breaker would begin anew with each start. It is
// written before pods are evicted, with the names of the next ones, once for the pods of
// ten seconds; so nothing that was evicted is missing in it, and what is in it and was not
// evicted is still there.
type Journal interface {
	// Load returns what was saved last, the zero value if nothing was.
	Load(ctx context.Context) (Record, error)
	// Save replaces it.
	Save(ctx context.Context, record Record) error
}

// A Record is what a [Journal] keeps.
type Record struct {
	Causes []RecordedCause `json:"causes,omitempty"`
	// Next are the pods that may have been evicted since.
	Next []RecordedPod `json:"next,omitempty"`
}

// A RecordedCause is what a DeviceTaintRule or the taints of a driver had evicted.
type RecordedCause struct {
	// Rule is the UID of a rule, Driver a driver; one of them is set.
	Rule   types.UID `json:"rule,omitempty"`
	Driver string    `json:"driver,omitempty"`
	// Evicted are all pods, Pods those since the cause last was calm.
	Evicted int `json:"evicted,omitempty"`
	Pods    int `json:"pods,omitempty"`
	// Namespaces are those of Pods; Devices and Claims are what the cause hits.
	Namespaces []string `json:"namespaces,omitempty"`
	Devices    int      `json:"devices,omitempty"`
	Claims     int      `json:"claims,omitempty"`
	// Drivers are those of the devices.
	Drivers []string `json:"drivers,omitempty"`
	// Last is when something last happened.
	Last time.Time `json:"last"`
}

// A RecordedPod is one that is about to be evicted.
type RecordedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Causes are the places of its causes in [Record].Causes.
	Causes []int `json:"causes"`
}

// mostRecorded bounds how many pods a record names.
const mostRecorded = 1000

// recordSpan is for how long, at the limit of the rate, the pods of a record last.
const recordSpan = 10 * time.Second

// record is what to write down before first is evicted. The mutex is held.
func (c *Controller) record(first *podCase, now time.Time) *Record {
	record, places := c.cases.ledger.record(now)
	perSecond := cmp.Or(c.options.Limits.PerSecond, defaultPerSecond)
	room := min(max(int(perSecond*recordSpan.Seconds()), 1), mostRecorded)
	next := []*podCase{first}
	for known := range c.cases.all() {
		if known != first && known.stage == acting {
			next = append(next, known)
		}
	}
	soon := slices.SortedFunc(slices.Values(c.cases.agenda), (*podCase).compare)
	next = append(next, soon[:min(room, len(soon))]...)
	for _, known := range next {
		pod := RecordedPod{Namespace: known.pod.Namespace, Name: known.pod.Name, UID: known.uid}
		for cause := range causes(known.plan.verdict()) {
			if place, ok := places[cause]; ok {
				pod.Causes = append(pod.Causes, place)
			}
		}
		slices.Sort(pod.Causes)
		record.Next = append(record.Next, pod)
	}
	return record
}

// record is what the causes have evicted that are not calm, and their places in it.
func (l *ledger) record(now time.Time) (*Record, map[cause]int) {
	record, places := &Record{}, map[cause]int{}
	for of, a := range l.accounts {
		if a.pending == 0 && now.Sub(a.wave.last) >= Calm {
			continue
		}
		evicted := slices.DeleteFunc(slices.Sorted(maps.Keys(a.wave.namespaces)), func(namespace string) bool {
			return a.wave.namespaces[namespace] <= a.namespaces[namespace] // all are pending
		})
		counts := a.wave.counts()
		places[of] = len(record.Causes)
		record.Causes = append(record.Causes, RecordedCause{
			Rule: of.rule, Driver: of.driver, Evicted: a.evicted,
			Pods: a.wave.pods - a.pending, Namespaces: evicted, Devices: counts.Devices, Claims: counts.Claims,
			Drivers: slices.Sorted(maps.Keys(a.wave.drivers)), Last: a.wave.last,
		})
	}
	return record, places
}

// recall takes over what was written before this controller started.
func (c *Controller) recall(ctx context.Context) error {
	if c.options.Journal == nil {
		return nil
	}
	record, err := c.options.Journal.Load(ctx)
	if err != nil {
		return fmt.Errorf("evictor: what was evicted before: %w", err)
	}
	for _, pod := range record.Next {
		if there := c.options.Usage.Pod(pod.Namespace, pod.Name); there != nil && there.UID == pod.UID && there.DeletionTimestamp == nil {
			continue
		}
		for _, place := range pod.Causes {
			if place >= 0 && place < len(record.Causes) {
				record.Causes[place].add(pod.Namespace)
			}
		}
	}
	c.finish(func() {
		for _, of := range record.Causes {
			c.cases.ledger.recall(of)
		}
	})
	return nil
}

// add counts a pod that was evicted after the record was written.
func (r *RecordedCause) add(namespace string) {
	r.Evicted++
	r.Pods++
	if !slices.Contains(r.Namespaces, namespace) {
		r.Namespaces = append(r.Namespaces, namespace)
	}
}

func (l *ledger) recall(r RecordedCause) {
	a := l.of(cause{rule: r.Rule, driver: r.Driver})
	a.evicted, a.recalled = r.Evicted, r.Evicted
	a.wave = newWave()
	a.wave.pods, a.wave.last = r.Pods, r.Last
	a.wave.before.devices, a.wave.before.claims = r.Devices, r.Claims
	for _, namespace := range r.Namespaces {
		a.wave.namespaces[namespace]++
	}
	for _, driver := range r.Drivers {
		a.wave.drivers[driver]++
	}
}

// ConfigMapJournal is a [Journal] in a ConfigMap of its own, one call for each Save.
type ConfigMapJournal struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

const journalKey = "evictions"

// Load implements [Journal].
func (j ConfigMapJournal) Load(ctx context.Context) (record Record, err error) {
	kept, err := j.Client.CoreV1().ConfigMaps(j.Namespace).Get(ctx, j.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return record, nil
	}
	if err == nil && kept.Data[journalKey] != "" {
		if err = json.Unmarshal([]byte(kept.Data[journalKey]), &record); err != nil {
			err = fmt.Errorf("%s: %w; delete the ConfigMap, and the circuit breaker counts anew", journalKey, err)
		}
	}
	if err != nil {
		return Record{}, fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	return record, nil
}

// Save implements [Journal].
func (j ConfigMapJournal) Save(ctx context.Context, record Record) error {
	text, err := json.Marshal(record)
	if err == nil {
		_, err = j.Client.CoreV1().ConfigMaps(j.Namespace).Apply(ctx,
			ac.ConfigMap(j.Name, j.Namespace).WithData(map[string]string{journalKey: string(text)}),
			metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	return nil
}
