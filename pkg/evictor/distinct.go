package evictor

import (
	"hash/maphash"

	"github.com/dra-steward/dra-steward/internal/table"
)

// distinct counts how many different values there are among those that were added and not
// taken out again. It knows them by a hash of 63 bits alone: two of ten thousand have the
// same one once in 10^11 times. The zero value has none.
type distinct[K comparable] struct {
	seed maphash.Seed
	seen table.Table[uint64, hash]
	// again is how often those are there that are more than once.
	again map[uint64]int
}

// hash is an entry that is its own key, and never zero.
type hash uint64

// Key implements [table.Entry].
func (h hash) Key() uint64 { return uint64(h) }

func (d *distinct[K]) count() int { return d.seen.Len() }

// change adds a value (+1) or takes it out (-1).
func (d *distinct[K]) change(value K, by int) {
	if d.again == nil {
		d.seed, d.again = maphash.MakeSeed(), map[uint64]int{}
	}
	h := maphash.Comparable(d.seed, value) | 1
	switch {
	case d.again[h] > 0 || by > 0 && d.seen.Get(h) != 0:
		change(d.again, h, by)
	case by > 0:
		d.seen.Add(hash(h))
	default:
		d.seen.Remove(hash(h))
	}
}
