package tracker

import (
	"cmp"
	"iter"
	"slices"
)

// keyed is what has a place in an ordered list.
type keyed interface{ key() string }

// ordered is an immutable list in the order of the keys, without duplicates. A changed
// list shares all chunks with the old one that the change does not touch. The zero
// value is empty.
type ordered[T keyed] struct {
	chunks [][]T
	length int
}

// chunkLength bounds what one change copies.
const chunkLength = 256

// An edit puts an item in the place of the one with its key, or removes that.
type edit[T keyed] struct {
	key    string
	item   T
	remove bool
}

// get returns the item with a key.
func (o ordered[T]) get(key string) (item T, found bool) {
	chunk := o.chunk(key)
	if chunk < 0 {
		return item, false
	}
	at, found := slices.BinarySearchFunc(o.chunks[chunk], key, func(item T, key string) int { return cmp.Compare(item.key(), key) })
	if found {
		item = o.chunks[chunk][at]
	}
	return item, found
}

// chunk returns the last chunk that begins at or before the key, -1 if there is none.
func (o ordered[T]) chunk(key string) int {
	at, found := slices.BinarySearchFunc(o.chunks, key, func(chunk []T, key string) int { return cmp.Compare(chunk[0].key(), key) })
	if found {
		return at
	}
	return at - 1
}

// all yields the items in their order.
func (o ordered[T]) all() iter.Seq[T] { return o.from("") }

// from yields the items that are not before the key, in their order.
func (o ordered[T]) from(key string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for c := max(o.chunk(key), 0); c < len(o.chunks); c++ {
			for _, item := range o.chunks[c] {
				if item.key() >= key && !yield(item) {
					return
				}
			}
		}
	}
}

// apply returns the list with the edits, of which each has a key of its own.
func (o ordered[T]) apply(edits []edit[T]) ordered[T] {
	switch len(edits) {
	case 0:
		return o
	case 1: // what happens all day
		if changed, ok := o.applyOne(edits); ok {
			return changed
		}
	}
	edits = slices.SortedFunc(slices.Values(edits), func(a, b edit[T]) int { return cmp.Compare(a.key, b.key) })
	changed := ordered[T]{chunks: make([][]T, 0, len(o.chunks)+len(edits)/chunkLength+1)}
	for c, chunk := range o.chunks {
		n := len(edits)
		if c+1 < len(o.chunks) {
			n, _ = slices.BinarySearchFunc(edits, o.chunks[c+1][0].key(), func(e edit[T], key string) int { return cmp.Compare(e.key, key) })
		}
		changed.add(chunk, edits[:n])
		edits = edits[n:]
	}
	changed.add(nil, edits)
	return changed
}

// applyOne is apply for a single edit that leaves the number of chunks as it is.
func (o ordered[T]) applyOne(edits []edit[T]) (changed ordered[T], ok bool) {
	if len(o.chunks) == 0 {
		return o, false
	}
	c := max(o.chunk(edits[0].key), 0)
	chunk := merged(o.chunks[c], edits)
	if len(chunk) == 0 || len(chunk) > chunkLength {
		return o, false
	}
	changed = ordered[T]{chunks: slices.Clone(o.chunks), length: o.length + len(chunk) - len(o.chunks[c])}
	changed.chunks[c] = chunk
	return changed, true
}

// add appends a chunk with the edits that fall into it.
func (o *ordered[T]) add(chunk []T, edits []edit[T]) {
	if len(edits) > 0 {
		chunk = merged(chunk, edits)
	}
	o.length += len(chunk)
	for len(chunk) > chunkLength {
		half := chunkLength / 2 // room for what comes
		o.chunks = append(o.chunks, chunk[:half:half])
		chunk = chunk[half:]
	}
	if len(chunk) > 0 {
		o.chunks = append(o.chunks, chunk)
	}
}

// merged returns the items with the edits, both in order.
func merged[T keyed](items []T, edits []edit[T]) []T {
	result := make([]T, 0, len(items)+len(edits))
	for _, e := range edits {
		n, found := slices.BinarySearchFunc(items, e.key, func(item T, key string) int { return cmp.Compare(item.key(), key) })
		result = append(result, items[:n]...)
		if found {
			n++
		}
		items = items[n:]
		if !e.remove {
			result = append(result, e.item)
		}
	}
	return append(result, items...)
}
