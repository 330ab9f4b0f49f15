package capacity

import (
	"math"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// holdings are what claims have of each device. Admin access holds nothing.
type holdings map[usage.DeviceID]*holding

// get is what claims have of a device.
func (all holdings) get(id usage.DeviceID) *holding {
	if h := all[id]; h != nil {
		return h
	}
	return &holding{}
}

// A holding is what claims have of one device.
type holding struct {
	usage.Taken
	// published is true if the newest generation of the pool has the device.
	published bool
	// by are the claims, once for each result.
	by []part
}

// A part is what a result of a claim has of a device: all of it, or a share.
type part struct {
	claim *resourceapi.ResourceClaim
	whole bool
}

// holdingsOf collects the allocations of claims.
func holdingsOf(claims []*resourceapi.ResourceClaim) holdings {
	all := make(holdings, len(claims))
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if usage.Observes(r) {
				continue
			}
			id := usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			h := all[id]
			if h == nil {
				h = &holding{}
				all[id] = h
			}
			h.add(claim, r)
		}
	}
	return all
}

func (h *holding) add(claim *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) {
	h.by = append(h.by, part{claim, r.ShareID == nil})
	h.Add(r)
}

// maxRoom bounds the shares of one device that are counted.
const maxRoom = math.MaxInt32

// room is how many shares of default size are left of a device that claims share. Unlimited is
// true if a share consumes nothing.
func room(d *resourceapi.Device, h *holding) (shares int, unlimited bool) {
	shares, unlimited = maxRoom, true
	for name, c := range d.Capacity {
		share := c.Value
		if c.RequestPolicy != nil && c.RequestPolicy.Default != nil {
			share = *c.RequestPolicy.Default
		}
		left := c.Value.DeepCopy()
		left.Sub(h.Consumed[name])
		if share.Sign() <= 0 {
			if left.Sign() < 0 {
				return 0, false
			}
			continue
		}
		unlimited = false
		shares = min(shares, times(left, share))
	}
	if unlimited {
		return 0, true
	}
	return shares, false
}

// times is how many times a share fits what is left.
func times(left, share resource.Quantity) int {
	if left.Cmp(share) < 0 {
		return 0
	}
	whole, ok := left.AsInt64()
	of, also := share.AsInt64()
	if !ok || !also {
		whole, of = left.MilliValue(), share.MilliValue()
	}
	if of <= 0 {
		return maxRoom
	}
	return int(min(whole/of, maxRoom))
}

// baseName is the name of an attribute without its domain.
func baseName(name resourceapi.QualifiedName) string {
	if _, base, found := strings.Cut(string(name), "/"); found {
		return base
	}
	return string(name)
}
