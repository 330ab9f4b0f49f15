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

// A Table finds entries by their keys. It keeps no copies of keys: a slot is as large as an
// entry, so that for a pointer to an object, with its namespace and name as key, it takes a
// fifth of what a map takes. It gives memory back when entries are removed. Several entries
// may have the same key.
//
// The zero value is empty and ready for use. The zero entry stands for an empty slot, and
// cannot be added. A table is for one goroutine at a time, or for several that only read.
type Table[K comparable, E Entry[K]] struct {
	seed maphash.Seed
	// slots are a power of two. An entry is at the place of its hash, or in one of the
	// slots that follow without a gap.
	slots []E
	used  int32
	// keys is the number of different ones.
	keys int32
}

// leastSlots is how small a table with entries is.
const leastSlots = 4

// Len is the number of entries.
func (t *Table[K, E]) Len() int { return int(t.used) }

// CountKeys is the number of different keys.
func (t *Table[K, E]) CountKeys() int { return int(t.keys) }

// Add adds an entry, also if it is there already.
func (t *Table[K, E]) Add(e E) {
	switch {
	case t.slots == nil:
		t.seed, t.slots = maphash.MakeSeed(), make([]E, leastSlots)
	case (t.Len()+1)*4 > len(t.slots)*3:
		t.resize(len(t.slots) * 2)
	}
	if _, known := t.find(e.Key(), anyOf); !known {
		t.keys++
	}
	t.put(e)
	t.used++
}

func (t *Table[K, E]) put(e E) {
	var empty E
	i := t.home(e.Key())
	for t.slots[i] != empty {
		i = t.after(i)
	}
	t.slots[i] = e
}

// Remove removes an entry, one of them if it was added several times, and says whether it
// was there.
func (t *Table[K, E]) Remove(e E) bool {
	at, found := t.find(e.Key(), func(other E) bool { return other == e })
	if !found {
		return false
	}
	t.used--
	switch {
	case t.used == 0:
		t.slots = nil
	case t.Len()*8 < len(t.slots) && len(t.slots) > leastSlots:
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
	}
}

func (t *Table[K, E]) home(key K) int {
	return int(maphash.Comparable(t.seed, key) & uint64(len(t.slots)-1))
}

func (t *Table[K, E]) after(slot int) int { return (slot + 1) & (len(t.slots) - 1) }
