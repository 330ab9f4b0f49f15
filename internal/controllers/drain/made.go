package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/reconcile"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// expected is how long a drain counts that was created, though the informer has not had it yet.
const expected = 30 * time.Second

// A DrainStore has the drains as a controller sees them that writes some itself: those of an informer, and
// its own writes until the informer has them.
type DrainStore struct {
	store cache.Store
	// seen is the resource version up to which the informer has everything.
	seen    func() string
	written map[string]writtenDrain
	// deleted has when drains were deleted that the informer may still have.
	deleted map[types.UID]time.Time
	// last are the drains of the last call of All, ended those of earlier calls that are gone.
	last, ended map[types.UID]*v1alpha1.DeviceDrain
}

// A writtenDrain is as the API server answered, at a time.
type writtenDrain struct {
	*v1alpha1.DeviceDrain
	at time.Time
}

// NewDrainStore returns the drains of an informer's store. seen is the resource version up to which the informer has
// everything: after an outage of the API server it can be behind for a minute.
func NewDrainStore(store cache.Store, seen func() string) *DrainStore {
	return &DrainStore{store: store, seen: seen, written: map[string]writtenDrain{}, deleted: map[types.UID]time.Time{}, ended: map[types.UID]*v1alpha1.DeviceDrain{}}
}

// Wrote notes the answer of the API server to a write.
func (s *DrainStore) Wrote(d *v1alpha1.DeviceDrain, now time.Time) {
	s.written[d.Name] = writtenDrain{d, now}
}

// Deleted notes that a drain was deleted.
func (s *DrainStore) Deleted(d *v1alpha1.DeviceDrain, now time.Time) {
	s.deleted[d.UID] = now
	if s.written[d.Name].DeviceDrain != nil && s.written[d.Name].UID == d.UID {
		delete(s.written, d.Name)
	}
}

// All are all drains as they were read or written last, by name.
func (s *DrainStore) All(now time.Time) (all []*v1alpha1.DeviceDrain) {
	present := map[types.UID]bool{}
	for _, object := range s.store.List() {
		d, is := object.(*v1alpha1.DeviceDrain)
		if !is {
			continue
		}
		present[d.UID] = true
		made, known := s.written[d.Name]
		switch {
		case !known || !reconcile.Newer(made.ResourceVersion, d.ResourceVersion):
			delete(s.written, d.Name)
		case made.UID == d.UID:
			d = made.DeviceDrain
		default: // ours took its place, and the informer does not have it yet
			continue
		}
		if _, deleted := s.deleted[d.UID]; !deleted {
			all = append(all, d)
		}
	}
	for name, made := range s.written {
		if present[made.UID] {
			continue
		}
		if now.Sub(made.at) > expected && !reconcile.Newer(made.ResourceVersion, s.seen()) {
			delete(s.written, name)
			continue
		}
		all = append(all, made.DeviceDrain)
	}
	for uid, at := range s.deleted {
		if !present[uid] && now.Sub(at) > expected {
			delete(s.deleted, uid)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.DeviceDrain) int { return strings.Compare(a.Name, b.Name) })
	s.noteEnded(all, now)
	return all
}

// noteEnded remembers the drains that are gone since the last call, for as long as a window may count them: what they
// evicted, and no devices, from which nothing evicts any more.
func (s *DrainStore) noteEnded(all []*v1alpha1.DeviceDrain, now time.Time) {
	present := make(map[types.UID]*v1alpha1.DeviceDrain, len(all))
	for _, d := range all {
		present[d.UID] = d
	}
	for uid, d := range s.last {
		if present[uid] != nil {
			continue
		}
		ended := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: d.Name, UID: uid, CreationTimestamp: d.CreationTimestamp}}
		ended.Spec.DryRun, ended.Status.Conditions = d.Spec.DryRun, d.Status.Conditions
		ended.Status.Counts, ended.Status.Evicting = d.Status.Counts, d.Status.Evicting
		s.ended[uid] = ended
	}
	maps.DeleteFunc(s.ended, func(uid types.UID, d *v1alpha1.DeviceDrain) bool {
		return present[uid] != nil || now.Sub(beganAt(d)) >= guard.MaxWindow
	})
	s.last = present
}

// Counted are the drains that the window counts: those of a call of [DrainStore.All] with those that were created since, and
// those that were deleted since this process began.
func (s *DrainStore) Counted(all []*v1alpha1.DeviceDrain) []*v1alpha1.DeviceDrain {
	return slices.AppendSeq(slices.Clone(all), maps.Values(s.ended))
}

// ActiveEvictions finds the evictions that began within a time, as the guard counts them.
type ActiveEvictions struct {
	Usage *usage.Index
	// Rules has *resourceapi.DeviceTaintRule.
	Rules cache.Store
	// Length is that of the window of the guard.
	Length time.Duration
}

// Hit is what an eviction from devices affects now.
func (a ActiveEvictions) Hit(devices []usage.DeviceID) guard.Hit {
	return a.Usage.ImpactOn(slices.Values(devices), nil).Hit()
}

// Starts are the drains and rules that began to evict within the window.
func (a ActiveEvictions) Starts(drains []*v1alpha1.DeviceDrain, now time.Time) (starts []guard.Start) {
	for _, d := range drains {
		if start, recent := a.start(d, now); recent {
			starts = append(starts, start)
		}
	}
	for _, object := range a.Rules.List() {
		rule, is := object.(*resourceapi.DeviceTaintRule)
		if !is || !guard.Widens(nil, rule) {
			continue
		}
		began, known := guard.Began(rule)
		if added := rule.Spec.Taint.TimeAdded; !known && added != nil {
			began, known = added.Time, true // until its beginning is recorded, a moment after the change
		}
		if known && now.Sub(began) < a.Length {
			starts = append(starts, guard.Start{Object: "DeviceTaintRule " + rule.Name, Time: began, Hit: a.Usage.Impact(rule.Spec.DeviceSelector, &rule.Spec.Taint).Hit()})
		}
	}
	return starts
}

// beganAt is when a drain was created or unpaused, or when its window opened.
func beganAt(d *v1alpha1.DeviceDrain) time.Time {
	draining := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.DrainDraining)
	if draining != nil && draining.Status == metav1.ConditionTrue && draining.LastTransitionTime.After(d.CreationTimestamp.Time) {
		return draining.LastTransitionTime.Time
	}
	return d.CreationTimestamp.Time
}

// start is the eviction of a drain that began within the window. Pods that it has evicted
// hold nothing any more, and count by their number.
func (a ActiveEvictions) start(d *v1alpha1.DeviceDrain, now time.Time) (guard.Start, bool) {
	began := beganAt(d)
	none := d.Status.Counts.Evicted+d.Status.Counts.Deleted == 0 && len(d.Status.Evicting) == 0
	if d.Spec.DryRun || d.Spec.Paused && none || now.Sub(began) >= a.Length {
		return guard.Start{}, false
	}
	var devices []usage.DeviceID
	for _, name := range Names(d) {
		devices = append(devices, usage.DeviceID(name))
	}
	hit := a.Hit(devices)
	namespace := ""
	if len(hit.Pods) > 0 {
		namespace = hit.Pods[0].Namespace
	}
	for i := range d.Status.Counts.Evicted + d.Status.Counts.Deleted + a.leaving(d, hit.Pods) {
		hit.Pods = append(hit.Pods, types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s/%d", d.UID, i)})
	}
	return guard.Start{Object: v1alpha1.DeviceDrainKind + " " + d.Name, Time: began, Hit: hit}, true
}

// leaving is how many pods a drain evicts or has asked to leave that are not among those that run, nor in its counts: they
// terminate, or have gone since its status was written.
func (a ActiveEvictions) leaving(d *v1alpha1.DeviceDrain, running []types.NamespacedName) (n int32) {
	runs := map[types.UID]bool{}
	for _, name := range running {
		if pod := a.Usage.Pod(name.Namespace, name.Name); pod != nil {
			runs[pod.UID] = true
		}
	}
	for _, pod := range d.Status.Evicting {
		if !runs[pod.UID] {
			n++
		}
	}
	for _, r := range d.Status.Requested {
		if r.Fallback == "" && !runs[r.UID] {
			n++
		}
	}
	return n
}

// Names are the devices of a drain, none while its selector is not resolved.
func Names(d *v1alpha1.DeviceDrain) []v1alpha1.DeviceName {
	return Resolve(d, func(*v1alpha1.DrainSelector) patch.Selection { return patch.Selection{} }, nil).Names
}
