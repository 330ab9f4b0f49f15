package sizedcache_test

import (
	"testing"

	"github.com/dra-steward/dra-steward/internal/memory/sizedcache"
)

// TestBytes: the cache never exceeds its bytes, and keeps what was used last.
func TestBytes(t *testing.T) {
	const maxBytes = 64 << 10
	c := sizedcache.New[int, string](maxBytes)
	for i := range 1000 {
		c.Add(i, "value", int64(i%800))
		if _, found := c.Get(0); !found {
			t.Fatalf("the entry that is used most is gone after %d", i)
		}
		if size := c.Size(); size > maxBytes {
			t.Fatalf("%d bytes after %d", size, i)
		}
	}
	if _, found := c.Get(999); !found {
		t.Error("the last entry is gone")
	}
	if _, found := c.Get(1); found {
		t.Error("the oldest entry is there")
	}
}

// TestLargeEntries are not kept.
func TestLargeEntries(t *testing.T) {
	c := sizedcache.New[string, int](64 << 10)
	c.Add("small", 1, 100)
	c.Add("large", 2, c.MaxEntry())
	if _, found := c.Get("large"); found {
		t.Error("a large entry is kept")
	}
	if v, found := c.Get("small"); !found || v != 1 {
		t.Error("a small entry is gone")
	}
}

// TestReplace: the size of a replaced entry is given back.
func TestReplace(t *testing.T) {
	c := sizedcache.New[string, int](64 << 10)
	c.Add("a", 1, 500)
	c.Add("a", 2, 100)
	if v, _ := c.Get("a"); v != 2 || c.Size() > 300 {
		t.Errorf("%d with %d bytes", v, c.Size())
	}
}

// TestNone: no bytes keep no entry.
func TestNone(t *testing.T) {
	c := sizedcache.New[string, int](0)
	c.Add("a", 1, 0)
	if _, found := c.Get("a"); found || c.Size() != 0 {
		t.Error("an entry is kept")
	}
}
