package patch

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
)

// A Result is a merged slice, with where it comes from.
type Result struct {
	// Slice is what consumers see. It is Published itself if nothing is different, and
	// shares with it what is equal otherwise.
	Slice *resourceapi.ResourceSlice
	// Published is what the driver has published.
	Published *resourceapi.ResourceSlice

	// matches are in the order of precedence.
	matches []Match
	// devices is nil if no patch applies to a device.
	devices []outcome
}

// An outcome is what became of one device: an effect for each entry of a plan.
type outcome struct {
	plan    *plan
	effects string
}

// A Key is what patches did to one attribute or capacity of a device.
type Key struct {
	// Name is that in the patches, Spelling that in the device: a driver may leave out
	// its own name.
	Name     Name
	Spelling resourceapi.QualifiedName
	Effect   Effect
	// Winner is the patch that decided, Suppressed are those that wanted something
	// else or the same, in the order of precedence.
	Winner     *Patch
	Suppressed []*Patch
	// TypeChanged says that the driver's value has another type, so that expressions
	// about it may fail.
	TypeChanged bool
	// PolicyViolated says that the value of a capacity is below what its request
	// policy hands out. PolicyDropped says that the patch has a policy and the device
	// is not shared, so that it can have none.
	PolicyViolated, PolicyDropped bool
}

// Device yields what patches did to the device with an index, in the order of
// precedence of the winners.
func (r Result) Device(index int) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		if index >= len(r.devices) || r.devices[index].plan == nil {
			return
		}
		o := r.devices[index]
		for i := range o.plan.entries {
			if !yield(o.key(i)) {
				return
			}
		}
	}
}

func (o outcome) key(i int) Key {
	e, effect := &o.plan.entries[i], Effect(o.effects[i])
	k := Key{
		Name: e.key, Spelling: resourceapi.QualifiedName(e.key.Qualified), Effect: effect & effectMask,
		Winner: e.winner, Suppressed: e.suppressed,
		TypeChanged:    effect&typeChanged != 0,
		PolicyViolated: effect&policyViolated != 0,
		PolicyDropped:  effect&policyDropped != 0,
	}
	if effect&shortSpelling != 0 {
		k.Spelling = e.id
	}
	return k
}

// Matches returns the patches that match devices of the slice or failed to, in the
// order of precedence.
func (r Result) Matches() []Match { return r.matches }
