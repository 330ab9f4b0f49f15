// Package table has a hash table for many small entries that know their own keys.
package table

import (
	"hash/maphash"
	"iter"
)

// An Entry knows the key under which a [Table] has it. It does not change meanwhile.
type Entry[K comparable] interface {
	comparable
	Key() K
}

// A Table finds entries by their keys. It stores no copies of keys: a slot is as large as an
// entry, so for pointers to objects, with namespace and name as key, it takes a fifth of the
// memory of a map. It releases memory when entries are removed. Several entries may have the
// same key; those of a key with many move to a map, so that no operation on one entry depends
// on their number.
//
// The zero value is empty and ready for use. The zero entry marks an empty slot and cannot
// be added. A table is for one goroutine at a time, or for several that only read.
type Table[K comparable, E Entry[K]] struct {
	seed maphash.Seed
	// slots are a power of two. An entry is at the index of its hash, or in one of the
	// following slots without a gap.
	slots []E
	used  int32
	// keys is the number of different ones in slots.
	keys int32
	// crowds has the entries of keys with more than maxInSlots, and how often each was added.
	crowds map[K]*crowd[E]
	// crowded is the number of entries in crowds.
	crowded int32
}

type crowd[E comparable] struct {
	entries map[E]int
	sum     int
}

const (
	// leastSlots is the least number of slots of a table with entries.
	leastSlots = 4
	// maxInSlots is how many entries of one key are in slots: an operation on one of them
	// walks over all.
	maxInSlots = 16
)

// Len is the number of entries.
func (t *Table[K, E]) Len() int { return int(t.used + t.crowded) }

// CountKeys is the number of different keys.
func (t *Table[K, E]) CountKeys() int { return int(t.keys) + len(t.crowds) }

// Add adds an entry, also if it is there already.
func (t *Table[K, E]) Add(e E) {
	key := e.Key()
	if c := t.crowds[key]; c != nil {
		c.entries[e]++
		c.sum++
		t.crowded++
		return
	}
	alike := 0
	for range t.inSlots(key) {
		alike++
	}
	if alike >= maxInSlots {
		t.toCrowd(key)
		t.Add(e)
		return
	}
	if alike == 0 {
		t.keys++
	}
	t.addSlot(e)
}

func (t *Table[K, E]) addSlot(e E) {
	switch {
	case t.slots == nil:
		t.seed, t.slots = maphash.MakeSeed(), make([]E, leastSlots)
	case int(t.used+1)*4 > len(t.slots)*3:
		t.resize(len(t.slots) * 2)
	}
	t.put(e)
	t.used++
}

// toCrowd moves the entries of a key from slots to a crowd.
func (t *Table[K, E]) toCrowd(key K) {
	c := &crowd[E]{entries: map[E]int{}}
	for e := range t.inSlots(key) {
		c.entries[e]++
		c.sum++
	}
	for e, n := range c.entries {
		for range n {
			t.removeSlot(e)
		}
	}
	if t.crowds == nil {
		t.crowds = map[K]*crowd[E]{}
	}
	t.crowds[key] = c
	t.crowded += int32(c.sum)
}

// removeCrowded removes an entry from a crowd, and moves what is left of a small one back to
// slots.
func (t *Table[K, E]) removeCrowded(key K, c *crowd[E], e E) bool {
	n := c.entries[e]
	switch n {
	case 0:
		return false
	case 1:
		delete(c.entries, e)
	default:
		c.entries[e] = n - 1
	}
	c.sum--
	t.crowded--
	if c.sum > maxInSlots/2 {
		return true
	}
	delete(t.crowds, key)
	t.crowded -= int32(c.sum)
	for e, n := range c.entries {
		for range n {
			t.Add(e)
		}
	}
	return true
}

func (t *Table[K, E]) put(e E) {
	var empty E
	i := t.home(e.Key())
	for t.slots[i] != empty {
		i = t.after(i)
	}
	t.slots[i] = e
}

// Remove removes an entry, one of them if it was added several times, and reports whether
// it was there.
func (t *Table[K, E]) Remove(e E) bool {
	key := e.Key()
	if c := t.crowds[key]; c != nil {
		return t.removeCrowded(key, c, e)
	}
	return t.removeSlot(e)
}

func (t *Table[K, E]) removeSlot(e E) bool {
	at, found := t.find(e.Key(), func(other E) bool { return other == e })
	if !found {
		return false
	}
	t.used--
	switch {
	case t.used == 0:
		t.slots = nil
	case int(t.used)*8 < len(t.slots) && len(t.slots) > leastSlots:
		var empty E
		t.slots[at] = empty
		t.resize(len(t.slots) / 2)
	default:
		t.close(at)
	}
	if _, left := t.find(e.Key(), anyOf); !left {
		t.keys--
	}
	return true
}

// Replace puts an entry in the place of another one with the same key, and reports whether
// that was there.
func (t *Table[K, E]) Replace(old, e E) bool {
	key := old.Key()
	if c := t.crowds[key]; c != nil {
		n := c.entries[old]
		if n == 0 {
			return false
		}
		if n == 1 {
			delete(c.entries, old)
		} else {
			c.entries[old] = n - 1
		}
		c.entries[e]++
		return true
	}
	at, found := t.find(key, func(other E) bool { return other == old })
	if found {
		t.slots[at] = e
	}
	return found
}

func anyOf[E any](E) bool { return true }

// close moves entries so that an empty slot at a place is no gap before any of them.
func (t *Table[K, E]) close(gap int) {
	var empty E
	for i := t.after(gap); t.slots[i] != empty; i = t.after(i) {
		home := t.home(t.slots[i].Key())
		// The gap is between home and here, the end being before the beginning.
		if (i-home)&(len(t.slots)-1) >= (i-gap)&(len(t.slots)-1) {
			t.slots[gap], gap = t.slots[i], i
		}
	}
	t.slots[gap] = empty
}

// resize makes the slots that many, and has each entry at its place.
func (t *Table[K, E]) resize(slots int) {
	var empty E
	had := t.slots
	t.slots = make([]E, slots)
	for _, e := range had {
		if e != empty {
			t.put(e)
		}
	}
}

// Get returns an entry with the key, the zero entry if there is none.
func (t *Table[K, E]) Get(key K) (e E) {
	if c := t.crowds[key]; c != nil {
		for e := range c.entries {
			return e
		}
	}
	if at, found := t.find(key, anyOf); found {
		e = t.slots[at]
	}
	return e
}

// find is the place of the first entry with the key that is right.
func (t *Table[K, E]) find(key K, right func(E) bool) (at int, found bool) {
	if t.used == 0 {
		return 0, false
	}
	var empty E
	for at = t.home(key); t.slots[at] != empty; at = t.after(at) {
		if t.slots[at].Key() == key && right(t.slots[at]) {
			return at, true
		}
	}
	return 0, false
}

// With yields the entries with the key, in no order. The table must not change meanwhile.
func (t *Table[K, E]) With(key K) iter.Seq[E] {
	if c := t.crowds[key]; c != nil {
		return c.all
	}
	return t.inSlots(key)
}

// all yields the entries.
func (c *crowd[E]) all(yield func(E) bool) {
	for e, n := range c.entries {
		for range n {
			if !yield(e) {
				return
			}
		}
	}
}

// inSlots is With for entries that are in slots.
func (t *Table[K, E]) inSlots(key K) iter.Seq[E] {
	return func(yield func(E) bool) {
		if t.used == 0 {
			return
		}
		var empty E
		for at := t.home(key); t.slots[at] != empty; at = t.after(at) {
			if t.slots[at].Key() == key && !yield(t.slots[at]) {
				return
			}
		}
	}
}

// All yields all entries, in no order. The table must not change meanwhile.
func (t *Table[K, E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		var empty E
		for _, e := range t.slots {
			if e != empty && !yield(e) {
				return
			}
		}
		for _, c := range t.crowds {
			for e := range c.all {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Keys yields the keys of all entries, each once, in no order. The table must not change
// meanwhile.
func (t *Table[K, E]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		var empty E
		for at, e := range t.slots {
			if e == empty {
				continue
			}
			// The first with a key stands for all of them.
			if first, _ := t.find(e.Key(), anyOf); first == at && !yield(e.Key()) {
				return
			}
		}
		for key := range t.crowds {
			if !yield(key) {
				return
			}
		}
	}
}

func (t *Table[K, E]) home(key K) int {
	return int(maphash.Comparable(t.seed, key) & uint64(len(t.slots)-1))
}

func (t *Table[K, E]) after(slot int) int { return (slot + 1) & (len(t.slots) - 1) }
