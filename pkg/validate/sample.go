package validate

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
)

// sampledDevices is how many devices of a driver stand for all of them: those of one
// driver differ little, and neighbours least.
const sampledDevices = 256

// sample walks devices of every driver, evenly spread over its slices: the slice and the
// index of the device.
func sample(world World) iter.Seq2[*resourceapi.ResourceSlice, int] {
	return func(yield func(*resourceapi.ResourceSlice, int) bool) {
		var group []*resourceapi.ResourceSlice
		for slice := range world.Slices() {
			if len(group) > 0 && group[0].Spec.Driver != slice.Spec.Driver {
				if !spread(group, yield) {
					return
				}
				group = group[:0]
			}
			group = append(group, slice)
		}
		spread(group, yield)
	}
}

// spread yields the devices of some slices, evenly spread if there are many.
func spread(slices []*resourceapi.ResourceSlice, yield func(*resourceapi.ResourceSlice, int) bool) bool {
	total := 0
	for _, slice := range slices {
		total += len(slice.Spec.Devices)
	}
	picked, before := 0, 0
	wanted := min(total, sampledDevices)
	for _, slice := range slices {
		for ; picked < wanted; picked++ {
			device := picked*total/wanted - before
			if device >= len(slice.Spec.Devices) {
				break
			}
			if !yield(slice, device) {
				return false
			}
		}
		before += len(slice.Spec.Devices)
	}
	return true
}
