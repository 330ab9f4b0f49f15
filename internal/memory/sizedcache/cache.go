// Package sizedcache keeps the values that were used last, up to a number of bytes.
package sizedcache

import (
	"container/list"
	"sync"
)

// overhead is what an entry costs in addition to its key and value: its place in the list and in
// the map.
const overhead = 160

// A Cache is bounded in bytes. Several goroutines may use it.
type Cache[K comparable, V any] struct {
	max, maxEntry int64

	mu      sync.Mutex
	size    int64
	entries map[K]*list.Element
	recent  list.List // of *entry[K, V], the last used one first
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

// largest is the share of the cache that one entry may have.
const largest = 64

// New makes a cache of at most maxBytes. It does not keep an entry that is larger than
// 1/64 of that: one large input would replace many small ones that are used more often.
func New[K comparable, V any](maxBytes int64) *Cache[K, V] {
	return &Cache[K, V]{max: maxBytes, maxEntry: maxBytes / largest, entries: map[K]*list.Element{}}
}

// MaxEntry is the size of the largest entry that is kept.
func (c *Cache[K, V]) MaxEntry() int64 { return c.maxEntry }

// Get returns the value of a key.
func (c *Cache[K, V]) Get(key K) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.entries[key]
	if !found {
		return value, false
	}
	c.recent.MoveToFront(element)
	return entryOf[K, V](element).value, true
}

// Add keeps a value; size is that of key and value in bytes.
func (c *Cache[K, V]) Add(key K, value V, size int64) {
	size += overhead
	if size > c.maxEntry {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.entries[key]; found {
		c.remove(element)
	}
	c.entries[key] = c.recent.PushFront(&entry[K, V]{key, value, size})
	for c.size += size; c.size > c.max; {
		c.remove(c.recent.Back())
	}
}

// Size returns the size of all entries in bytes.
func (c *Cache[K, V]) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

func (c *Cache[K, V]) remove(element *list.Element) {
	old := entryOf[K, V](element)
	c.recent.Remove(element)
	delete(c.entries, old.key)
	c.size -= old.size
}

func entryOf[K comparable, V any](element *list.Element) *entry[K, V] {
	return element.Value.(*entry[K, V]) //nolint:forcetypeassert // the list holds nothing else
}
