package history

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Shards is in how many parts a store is stored. A pool is in one part as a whole.
const Shards = 10

// A Store has the records of devices. The zero value is ready for use.
type Store struct {
	// Since is when the recording began.
	Since time.Time
	// Dropped receives each record that is left out, if it is not nil.
	Dropped func(*Record)
	shards  [Shards]shard
}

// A shard is a part of a store.
type shard struct {
	records map[v1alpha1.DeviceName]*Record
	// size is that of all records.
	size int
	cut  Cut
	// left are hashes of the devices whose records were left out, at most maxLeft.
	left map[uint32]struct{}
	// changed is true if it was not written since it changed.
	changed bool
}

// maxLeft bounds the hashes of a shard.
const maxLeft = 1 << 16

// Cut is what was left out for lack of room.
type Cut struct {
	// Devices is of how many devices records were left out, at least; Until is when the last of them changed last.
	Devices int       `json:"devices,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// An Observation is the present state of a device.
type Observation struct {
	Device v1alpha1.DeviceName
	// Node is empty if it is not known.
	Node string
	// Unpublished is true if no slice has the device, so that its taints are not known.
	Unpublished bool
	// Entries are what is done to it now, Holders who holds it now.
	Entries []Entry
	Holders []Holder
	// Previous are holders of before that the record does not have.
	Previous Past
	// HoldersSince is the time from which on all holders are remembered.
	HoldersSince time.Time
}

// ShardOf is the part of a store that has a device.
func ShardOf(device v1alpha1.DeviceName) int {
	return int(hash(device.Driver+"/"+device.Pool) % Shards)
}

func hash(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

// Has reports whether there is a record of a device.
func (s *Store) Has(device v1alpha1.DeviceName) bool {
	return s.shards[ShardOf(device)].records[device] != nil
}

// Observe compares a device with its record. A record begins with the first entry.
func (s *Store) Observe(o Observation, now time.Time) {
	part := &s.shards[ShardOf(o.Device)]
	r := part.records[o.Device]
	if r == nil {
		if len(o.Entries) == 0 {
			return
		}
		r = &Record{DeviceName: o.Device, HoldersSince: moment(o.HoldersSince, now)}
	}
	before := r.size()
	if !r.observe(o, now) {
		return
	}
	r.bound()
	if part.records == nil {
		part.records = map[v1alpha1.DeviceName]*Record{}
	}
	if part.records[o.Device] == nil {
		before = 0
	}
	part.records[o.Device] = r
	part.size += r.size() - before
	part.changed = true
	s.shrink(part, maxShardText)
}

func (r *Record) observe(o Observation, now time.Time) (changed bool) {
	if node := clean(o.Node, maxName); node != "" && node != r.Node {
		r.Node, changed = node, true
	}
	current := slices.Clone(o.Entries)
	for i := range current {
		current[i].Steps = slices.Clone(current[i].Steps)
		current[i].clean(now)
		changed = r.enter(current[i], now) || changed
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.open() && !slices.ContainsFunc(current, func(n Entry) bool { return e.is(&n) }) {
			e.End, e.Unpublished, changed = later(e.Begin, moment(now, now)), o.Unpublished && e.Kind == Taint, true
		}
	}
	if o.Previous.Cut > r.CutHolders { // the record of another leader can count the same ones
		r.CutHolders, changed = o.Previous.Cut, true
	}
	for _, h := range o.Previous.Holders {
		h.Pods = slices.Clone(h.Pods)
		h.clean(now)
		changed = r.hold(h) || changed
	}
	return r.holdNow(o.Holders, now) || changed
}

// enter notes a current entry. One that returns soon goes on, if it is by the same owner and for the same reason. So
// does a taint that is older than the absence of the device.
func (r *Record) enter(e Entry, now time.Time) bool {
	if known := r.latest(&e); known != nil {
		older := !e.Begin.After(known.End)
		switch {
		case known.open():
			return known.follow(&e, now)
		case known.Unpublished && older:
			return known.resume(&e, now)
		case now.Sub(known.End) < same && known.beganAs(&e):
			known.Times = max(known.Times, 1) + 1
			return known.resume(&e, now)
		case older:
			e.Begin = moment(now, now)
		}
	}
	steps := e.Steps
	e.Steps = nil
	e.add(steps, now)
	r.Entries = append(r.Entries, e)
	return true
}

// latest is the entry about the same that has not ended, or ended last; nil if there is none.
func (r *Record) latest(e *Entry) (found *Entry) {
	for i := range r.Entries {
		known := &r.Entries[i]
		if known.is(e) && (found == nil || known.open() || !found.open() && !known.End.Before(found.End)) {
			found = known
		}
	}
	return found
}

// hold notes a holder, of now or of before.
func (r *Record) hold(h Holder) bool {
	for i := range r.Holders {
		known := &r.Holders[i]
		if known.UID == h.UID && (known.Until.IsZero() || known.sameUse(&h)) {
			return known.follow(&h)
		}
	}
	r.Holders = append(r.Holders, h)
	return true
}

// holdNow notes the holders of now: the newest, if there are too many.
func (r *Record) holdNow(all []Holder, now time.Time) (changed bool) {
	all = slices.Clone(all)
	for i := range all {
		all[i].Pods = slices.Clone(all[i].Pods)
		all[i].clean(now)
		all[i].Until = time.Time{}
	}
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Until.IsZero() && !slices.ContainsFunc(all, func(n Holder) bool { return n.UID == h.UID }) {
			h.Until, changed = later(h.Since, moment(now, now)), true
		}
	}
	slices.SortFunc(all, func(a, b Holder) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.UID, b.UID)) })
	for _, h := range all[:min(len(all), MaxHolders)] {
		changed = r.hold(h) || changed
	}
	return changed
}

// shrink leaves out records of a shard until they have at most most bytes.
func (s *Store) shrink(part *shard, most int) {
	if part.size <= most {
		return
	}
	ranked := part.ranked()
	for len(ranked) > 0 && part.size > most/10*9 {
		last := ranked[len(ranked)-1]
		s.drop(part, last)
		part.leftOut(last)
		ranked = ranked[:len(ranked)-1]
	}
}

// leftOut counts a device whose record is left out, once. What an earlier leader has counted can be the same devices.
func (s *shard) leftOut(r *Record) {
	if s.left == nil {
		s.left = map[uint32]struct{}{}
	}
	if len(s.left) < maxLeft {
		s.left[hash(r.String())] = struct{}{}
	}
	s.cut.Devices = max(s.cut.Devices, len(s.left))
	s.cut.Until = later(s.cut.Until, r.last())
}

func (s *Store) drop(part *shard, r *Record) {
	delete(part.records, r.DeviceName)
	part.size -= r.size()
	part.changed = true
	if s.Dropped != nil {
		s.Dropped(r)
	}
}

// ranked are the records of a shard, those first that are kept longest: of each driver the one
// that changed last, then of each the second one, and so on. A driver does not push out others.
func (s *shard) ranked() []*Record {
	type place struct {
		*Record
		last time.Time
		rank int
	}
	places := make([]place, 0, len(s.records))
	for _, r := range s.records {
		places = append(places, place{Record: r, last: r.last()})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), b.last.Compare(a.last), cmp.Compare(a.String(), b.String()))
	})
	for i := range places {
		if i > 0 && places[i].Driver == places[i-1].Driver {
			places[i].rank = places[i-1].rank + 1
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.rank, b.rank), b.last.Compare(a.last)) })
	ranked := make([]*Record, len(places))
	for i := range places {
		ranked[i] = places[i].Record
	}
	return ranked
}

// Expire leaves out what ended long ago.
func (s *Store) Expire(now time.Time) {
	for i := range s.shards {
		part := &s.shards[i]
		if now.Sub(part.cut.Until) > Age && part.cut != (Cut{}) {
			part.cut, part.left, part.changed = Cut{}, nil, true
		}
		for _, r := range part.records {
			before := r.size()
			lives, changed := r.expire(now)
			if part.size += r.size() - before; !lives {
				s.drop(part, r)
			} else if changed {
				part.changed = true
			}
		}
	}
}

// Merge adds records of another store, such as a stored one. Of what both have, the own one stays.
func (s *Store) Merge(other *Store, now time.Time) {
	if !other.Since.IsZero() && (s.Since.IsZero() || other.Since.Before(s.Since)) {
		s.Since = other.Since
	}
	for i := range other.shards {
		part, from := &s.shards[i], &other.shards[i]
		part.cut = Cut{max(part.cut.Devices, from.cut.Devices), later(part.cut.Until, from.cut.Until)}
		for device, r := range from.records {
			if part.records == nil {
				part.records = map[v1alpha1.DeviceName]*Record{}
			}
			own := part.records[device]
			if own == nil {
				part.records[device] = r
				part.size += r.size()
				continue
			}
			before := own.size()
			own.merge(r)
			part.size += own.size() - before
		}
		s.shrink(part, maxShardText)
	}
}

func (r *Record) merge(other *Record) {
	for _, e := range other.Entries {
		if !slices.ContainsFunc(r.Entries, func(own Entry) bool { return own.is(&e) && overlap(own.Begin, own.End, e.Begin, e.End) }) {
			r.Entries = append(r.Entries, e)
		}
	}
	for _, h := range other.Holders {
		if !slices.ContainsFunc(r.Holders, func(own Holder) bool {
			return own.UID == h.UID && overlap(own.Since, own.Until, h.Since, h.Until)
		}) {
			r.Holders = append(r.Holders, h)
		}
	}
	if r.HoldersSince.IsZero() || !other.HoldersSince.IsZero() && other.HoldersSince.Before(r.HoldersSince) {
		r.HoldersSince = other.HoldersSince
	}
	r.CutEntries, r.CutHolders = max(r.CutEntries, other.CutEntries), max(r.CutHolders, other.CutHolders)
	r.bound()
}

// overlap reports whether two times have a moment in common; an end of zero is not yet.
func overlap(begin, end, otherBegin, otherEnd time.Time) bool {
	return (end.IsZero() || !end.Before(otherBegin)) && (otherEnd.IsZero() || !otherEnd.Before(begin))
}

// Open returns the devices with an entry or a holder that has not ended.
func (s *Store) Open() (devices []v1alpha1.DeviceName) {
	for r := range s.Records {
		if slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.open() }) || slices.ContainsFunc(r.Holders, func(h Holder) bool { return h.Until.IsZero() }) {
			devices = append(devices, r.DeviceName)
		}
	}
	return devices
}

// Standing returns the entries of a kind that have not ended.
func (s *Store) Standing(device v1alpha1.DeviceName, kind Kind) (all []Entry) {
	r := s.Of(device)
	if r == nil {
		return nil
	}
	for _, e := range r.Entries {
		if e.open() && e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// Len is how many records there are.
func (s *Store) Len() (n int) {
	for i := range s.shards {
		n += len(s.shards[i].records)
	}
	return n
}

// Records yields the records, by device.
func (s *Store) Records(yield func(*Record) bool) {
	var all []*Record
	for i := range s.shards {
		all = slices.AppendSeq(all, maps.Values(s.shards[i].records))
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
	})
	for _, r := range all {
		if !yield(r) {
			return
		}
	}
}

// Cut is what was left out for lack of room, of the devices of all shards or of one.
func (s *Store) Cut(shards ...int) (cut Cut) {
	for i := range s.shards {
		if len(shards) == 0 || slices.Contains(shards, i) {
			cut.Devices += s.shards[i].cut.Devices
			cut.Until = later(cut.Until, s.shards[i].cut.Until)
		}
	}
	return cut
}
