// Package remerge lets package tracker merge the objects of a cluster again and again at the cost of
// what has changed. It is not part of the exported API of package tracker.
package remerge

// A Memory among the objects of tracker.Merge is what that remembers between two calls: an object at
// the same address as the last time is not merged again. The zero value is ready. One goroutine uses
// it at a time.
type Memory struct {
	// State belongs to package tracker.
	State any
}
