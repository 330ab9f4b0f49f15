package policy

import (
	"bytes"
	"hash/maphash"

	"k8s.io/utils/lru"
)

// decisions are those that are known, the latest used ones, by all that they depend on.
type decisions struct {
	seed  maphash.Seed
	known *lru.Cache
}

// known is a decision with its whole key: a hash alone decides nothing.
type known struct {
	key      []byte
	decision Decision
}

func newDecisions(size int) *decisions {
	return &decisions{maphash.MakeSeed(), lru.New(size)}
}

func (d *decisions) get(key []byte) (Decision, bool) {
	kept, found := d.known.Get(maphash.Bytes(d.seed, key))
	one, is := kept.(*known)
	if !found || !is || !bytes.Equal(one.key, key) {
		return Decision{}, false
	}
	decision := one.decision
	decision.Cached = true
	return decision, true
}

// add keeps a decision, in place of one whose key has the same hash.
func (d *decisions) add(key []byte, decision Decision) {
	d.known.Add(maphash.Bytes(d.seed, key), &known{bytes.Clone(key), decision})
}
