package capacity

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A Device is one device of the newest generation of its pool, with its state in the scope of
// all devices.
type Device struct {
	Tracker tracker.Device
	// Node is where it is, empty if that is more than one.
	Node  string
	State State
	// Reason is set if it is unreachable, Effect is the strongest of its taints that keeps claims
	// away: also of a device that is held.
	Reason Reason
	Effect resourceapi.DeviceTaintEffect
	// InUse is true if a claim has it, or a share of it.
	InUse bool
	// Claims have it, once for each result of an allocation. They are shared, not copied.
	Claims []*resourceapi.ResourceClaim
	// Model is what its driver publishes as model or productName.
	Model string
}

// Devices returns all devices with their states, in the order of their slices. Their states
// are those that [Cluster.Report] counts without a class.
func (c Cluster) Devices(ctx context.Context) ([]Device, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := s.choose(ctx, Scope{})
	if err != nil {
		return nil, err
	}
	all := make([]Device, 0, len(s.devices))
	for _, d := range s.devices {
		one := Device{Tracker: d.tracker, Node: d.place.node, State: chosen.stateOf(d), Reason: d.reason, Effect: d.effect, InUse: d.inUse, Model: d.model}
		for _, part := range d.holding.by {
			one.Claims = append(one.Claims, part.claim)
		}
		all = append(all, one)
	}
	return all, nil
}
