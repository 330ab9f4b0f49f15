// Package guard says which eviction is too large to begin without somebody having said
// that it may be: the thresholds of a site, the acknowledgement that an object carries,
// and which write makes a DeviceTaintRule evict more than it did. The webhook asks it of
// what is written, the controllers ask it again while they act, since a rule that evicts
// no pod today can evict thousands tomorrow.
package guard
