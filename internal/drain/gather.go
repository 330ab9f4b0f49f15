package drain

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Gather finds out which devices a drain is about, and who holds them. What it does not
// know (rules, answers, settings and the time) it leaves empty.
func Gather(d *v1alpha1.DeviceDrain, view *tracker.Snapshot, holders *usage.Index, find Find) Input {
	in := Input{Drain: d}
	in.Devices = Resolve(d, find, view.PublishedSlices())
	for _, id := range siblings.Of(view.PublishedSlices(), ids(in.Devices.Names)) {
		in.Siblings = append(in.Siblings, id.String())
	}
	claims, drivers, devices := map[types.UID]bool{}, map[string]bool{}, map[Pool]map[string]bool{}
	for _, name := range in.Devices.Names {
		drivers[name.Driver] = true
		if devices[poolOf(name)] == nil {
			devices[poolOf(name)] = map[string]bool{}
		}
		devices[poolOf(name)][name.Device] = true
		if _, published := view.Device(name.Driver, name.Pool, name.Device); !published {
			in.Unpublished++
		}
		held := holders.Claims(usage.DeviceID(name))
		if len(held) > 0 {
			in.HeldDevices++
		}
		for _, claim := range held {
			if claims[claim.UID] {
				continue
			}
			claims[claim.UID] = true
			holder := Holder{Claim: claim}
			for _, pod := range holders.Pods(claim.Namespace, claim.Name) {
				holder.Pods = append(holder.Pods, Pod{Pod: pod, Budgets: holders.Budgets(pod)})
			}
			in.Holders = append(in.Holders, holder)
		}
	}
	in.Pools = map[Pool]bool{}
	for slice := range view.PublishedSlices() {
		if drivers[slice.Spec.Driver] {
			in.DriverDevices += len(slice.Spec.Devices)
			in.addPool(slice, devices)
		}
	}
	return in
}

// addPool notes whether the pool of a slice has devices of the drain, and others.
func (in *Input) addPool(slice *resourceapi.ResourceSlice, ours map[Pool]map[string]bool) {
	pool := Pool{slice.Spec.Driver, slice.Spec.Pool.Name}
	if ours[pool] == nil || len(slice.Spec.Devices) == 0 {
		return
	}
	alone, known := in.Pools[pool]
	alone = alone || !known
	for i := range slice.Spec.Devices {
		alone = alone && ours[pool][slice.Spec.Devices[i].Name]
	}
	in.Pools[pool] = alone
}
