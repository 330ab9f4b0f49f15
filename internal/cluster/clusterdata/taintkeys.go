package clusterdata

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TaintKeys knows the keys of the taints of devices and of DeviceTaintRules, those of
// rules included that taint no device now.
type TaintKeys struct {
	tracked *tracker.Tracker
	handle  *tracker.Handle

	mutex sync.RWMutex
	// slices has the number of slices with a key, keys the keys of a slice.
	slices map[string]int
	keys   map[string][]string
}

// NewTaintKeys follows a tracker. The tracker must read DeviceTaintRules.
func NewTaintKeys(tracked *tracker.Tracker) *TaintKeys {
	k := &TaintKeys{tracked: tracked, slices: map[string]int{}, keys: map[string][]string{}}
	k.handle = tracked.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.change(nil, object) },
		UpdateFunc: k.change,
		DeleteFunc: func(object any) { k.change(object, nil) },
	})
	return k
}

// change takes over how a slice looks now; nil is none.
func (k *TaintKeys) change(before, after any) {
	old, _ := before.(*resourceapi.ResourceSlice)
	slice, _ := after.(*resourceapi.ResourceSlice)
	var name string
	var keys []string
	if old != nil {
		name = old.Name
	}
	if slice != nil {
		name, keys = slice.Name, keysOf(slice)
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, key := range k.keys[name] {
		if k.slices[key]--; k.slices[key] == 0 {
			delete(k.slices, key)
		}
	}
	delete(k.keys, name)
	for _, key := range keys {
		k.slices[key]++
	}
	if len(keys) > 0 {
		k.keys[name] = keys
	}
}

// keysOf returns the keys of a slice, each once.
func keysOf(slice *resourceapi.ResourceSlice) (keys []string) {
	for i := range slice.Spec.Devices {
		for _, taint := range slice.Spec.Devices[i].Taints {
			if !slices.Contains(keys, taint.Key) {
				keys = append(keys, taint.Key)
			}
		}
	}
	return keys
}

// Known reports whether a taint has the key. sure is false for a key that was not found
// while slices or rules cannot be read; an API server without rules has none.
func (k *TaintKeys) Known(key string) (known, sure bool) {
	k.mutex.RLock()
	known = k.slices[key] > 0
	k.mutex.RUnlock()
	if known {
		return true, true
	}
	for rule := range k.tracked.Snapshot().Rules() {
		if rule.Spec.Taint.Key == key {
			return true, true
		}
	}
	return false, k.complete()
}

// complete reports whether everything has been read.
func (k *TaintKeys) complete() bool {
	if !k.handle.HasSynced() {
		return false
	}
	return !slices.ContainsFunc(k.tracked.Conditions(), func(c tracker.Condition) bool {
		return !c.Available && c.Reason != tracker.ReasonNotInstalled
	})
}
