// Package guard decides which evictions are too large to begin without an acknowledgement:
// the thresholds of a site, the acknowledgement that an object carries,
// and which write makes a DeviceTaintRule evict more than it did. The webhook asks it of
// what is written, the controllers ask it again while they act, since a rule that evicts
// no pod today can evict thousands tomorrow.
package guard
