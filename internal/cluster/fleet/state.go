package fleet

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Fill is who has a device.
type Fill byte

const (
	// Free: no claim has the device.
	Free Fill = iota
	// Held: a claim has the device, or a share of it.
	Held
	// Unknown: no claim that could be read has the device, and some could not be read.
	Unknown
)

// A Mark is what is remarkable about a device. Of several the highest counts.
type Mark byte

const (
	None Mark = iota
	// Patched: a ResourceSlicePatch changes its attributes or capacities.
	Patched
	// Excluded: it shares counters with devices that are held or counted as free.
	Excluded
	// PatchedAway: a ResourceSlicePatch takes it out of every class.
	PatchedAway
	// Unreachable: its pool is incomplete or invalid, or its node is missing, not ready or
	// unschedulable.
	Unreachable
	// NoSchedule and NoExecute: its strongest taint has the effect.
	NoSchedule
	NoExecute
	// Draining: a DeviceDrain that has not ended has it.
	Draining
	// Sick: its driver reports it as broken in the status of a claim.
	Sick

	// Marks is the number of marks.
	Marks = int(Sick) + 1
)

// A State is what a cell of the map shows.
type State struct {
	Fill Fill
	Mark Mark
}

// codeBase is the code of a free device without a mark.
const codeBase = 'A'

// Code is a state in one byte: an ASCII letter, or "[" for the last one.
func (s State) Code() byte { return codeBase + byte(s.Fill)*byte(Marks) + byte(s.Mark) }

// Name is the mark, or else who has the device, in one word, as searches write it.
func (s State) Name() string {
	if s.Mark == None {
		return s.Fill.String()
	}
	return s.Mark.String()
}

// String is the fill in one word.
func (f Fill) String() string { return []string{"free", "held", "unknown"}[f] }

// String is the mark in one word, as searches write it.
func (m Mark) String() string {
	return []string{"none", "patched", "excluded", "patched-away", "unreachable", "noschedule", "noexecute", "draining", "sick"}[m]
}

// AllMarks are all but None, from the one that counts most.
func AllMarks() []Mark {
	return []Mark{Sick, Draining, NoExecute, NoSchedule, Unreachable, PatchedAway, Excluded, Patched}
}

// stateOf is the state of a device apart from drains and what its driver says about its health.
func stateOf(d *capacity.Device, partial bool) (s State) {
	switch {
	case d.State == capacity.Held || d.InUse:
		s.Fill = Held
	case partial:
		s.Fill = Unknown
	}
	switch {
	case d.Effect == resourceapi.DeviceTaintEffectNoExecute:
		s.Mark = NoExecute
	case d.Effect == resourceapi.DeviceTaintEffectNoSchedule:
		s.Mark = NoSchedule
	case d.Reason != "":
		s.Mark = Unreachable
	case d.State == capacity.PatchedAway:
		s.Mark = PatchedAway
	case d.State == capacity.Excluded:
		s.Mark = Excluded
	default:
		for range d.Tracker.Patched() {
			s.Mark = Patched
			break
		}
	}
	return s
}

// Ended reports whether a drain has ended: its devices are free, it has failed, or it is being
// deleted.
func Ended(d *v1alpha1.DeviceDrain) bool {
	return d.DeletionTimestamp != nil || d.Spec.DryRun ||
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDrained) ||
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainFailed)
}

// DevicesOf yields the devices of a drain: those of its status, or before that has any those that
// its spec names.
func DevicesOf(d *v1alpha1.DeviceDrain) iter.Seq[usage.DeviceID] {
	return func(yield func(usage.DeviceID) bool) {
		if len(d.Status.Devices) == 0 {
			for _, name := range d.Spec.Devices {
				if !yield(usage.DeviceID(name)) {
					return
				}
			}
		}
		left := MaxDevices // pools times devices can be millions
		for name := range drain.Expand(d.Status.Devices) {
			if left--; left < 0 || !yield(usage.DeviceID(name)) {
				return
			}
		}
	}
}

// sick are the devices that their drivers report as broken in the status of claims.
func (f *Fleet) sick() *health.Records {
	said := &health.Records{}
	for _, claim := range f.Input.Claims {
		said.AddClaim(claim)
	}
	return said
}

// Said is the worst that the pods of a device say about its health; false if they say nothing.
func (d *Device) Said(pods []*corev1.Pod) (health.Record, bool) {
	said := &health.Records{}
	for _, pod := range pods {
		said.AddPod(pod, d.claim)
	}
	return said.Of(d.ID)
}

// claim is one of the claims that have the device, nil for another.
func (d *Device) claim(namespace, name string) *resourceapi.ResourceClaim {
	for _, claim := range d.Claims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}
