package walk

import (
	"iter"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SameCapacity reports whether the API server passes over the capacity of a device, since
// it is what is stored.
func (d Device) SameCapacity() bool {
	return d.before != nil && d.List.server.Since(37) && equality.Semantic.DeepEqual(d.before.Capacity, d.Capacity)
}

// A Device is a device of a slice, with what a rule needs to know about it.
type Device struct {
	*resourceapi.Device
	// before is the stored device of the same name, or nil.
	before *resourceapi.Device
	// PassedOver is true if the API server's hand-written validation does not reach the
	// device, because there are too many. The declarative one does.
	PassedOver bool

	Index int
	List  *deviceList
}

// A deviceList is the devices of a slice that a rule walks.
type deviceList struct {
	slice, stored *resourceapi.ResourceSlice // stored is nil on creation
	server        Server
	Places        *Places
	// most is the number of devices up to which the hand-written validation looks at
	// each of them.
	most int
	// before are the stored devices by name, of several the first.
	before map[string]*resourceapi.Device
	same   *bool
}

// At is the path of the device, or of a field in it.
func (d Device) At(fields ...string) *field.Path {
	path := d.List.Places.At(d.Index)
	for _, name := range fields {
		path = path.Child(name)
	}
	return path
}

// Declared reports whether the API server's declarative validation, which has a say since
// 1.37, looks at the device: it leaves out a list of devices that has not changed, and
// nothing less than that.
func (d Device) Declared() bool {
	l := d.List
	if !l.server.Since(37) {
		return false
	}
	if l.same == nil {
		same := l.stored != nil && equality.Semantic.DeepEqual(l.stored.Spec.Devices, l.slice.Spec.Devices)
		l.same = &same
	}
	return !*l.same
}

// Checked reports whether the API server looks for a problem that both its validations know.
func (d Device) Checked() bool { return !d.PassedOver || d.Declared() }

func newDeviceList(old, slice *resourceapi.ResourceSlice, server Server) *deviceList {
	l := &deviceList{slice: slice, stored: old, server: server, Places: DevicePlaces(slice), most: maxDevicesRead(slice, server)}
	if old == nil || len(old.Spec.Devices) == 0 {
		return l
	}
	devices := old.Spec.Devices
	l.before = make(map[string]*resourceapi.Device, len(devices))
	for i := range devices {
		if _, known := l.before[devices[i].Name]; !known {
			l.before[devices[i].Name] = &devices[i]
		}
	}
	return l
}

// walkDevices walks the devices that the API server of the profile looks at, and on an
// update what is stored of each; old is nil on creation.
func CheckedDevices(old, slice *resourceapi.ResourceSlice, server Server) iter.Seq[Device] {
	return func(yield func(Device) bool) {
		l := server.devices(old, slice)
		passedOver := len(slice.Spec.Devices) > l.most
		if passedOver && !l.server.Since(37) {
			return
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if !yield(Device{d, l.before[d.Name], passedOver, i, l}) {
				return
			}
		}
	}
}

// maxDevicesRead is the number of devices up to which the hand-written validation
// looks at each of them.
func maxDevicesRead(slice *resourceapi.ResourceSlice, server Server) int {
	switch {
	case !server.Since(35):
		return math.MaxInt
	case len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures && slices.ContainsFunc(slice.Spec.Devices, Advanced):
		return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	default:
		return resourceapi.ResourceSliceMaxDevices
	}
}

// SameTaints reports whether the API server passes over the taints of a device, since they
// are those that are stored.
func (d Device) SameTaints() bool {
	return d.before != nil && d.List.server.Since(35) && slices.EqualFunc(d.before.Taints, d.Taints, equalTaint)
}

func equalTaint(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// Advanced reports whether device has what lowers the number of devices in a slice.
func Advanced(device resourceapi.Device) bool {
	if len(device.Taints) > 0 || len(device.ConsumesCounters) > 0 {
		return true
	}
	return HasLists(device)
}

// HasLists reports whether an attribute of device has a list of values.
func HasLists(device resourceapi.Device) bool {
	for _, a := range device.Attributes {
		if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

// Devices walks the devices of a slice with the path of each. Of a slice with more
// devices than any API server takes it yields none: their number is the problem to
// report, and the work to look at each would have no bound.
func Devices(slice *resourceapi.ResourceSlice) iter.Seq2[*field.Path, *resourceapi.Device] {
	return func(yield func(*field.Path, *resourceapi.Device) bool) {
		if len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevices {
			return
		}
		places := DevicePlaces(slice)
		for i := range slice.Spec.Devices {
			if !yield(places.At(i), &slice.Spec.Devices[i]) {
				return
			}
		}
	}
}

var devicesPath = field.NewPath("spec", "devices")

func DevicePlaces(slice *resourceapi.ResourceSlice) *Places {
	devices := slice.Spec.Devices
	return &Places{List: devicesPath, Length: len(devices), Name: func(i int) string { return devices[i].Name }}
}

// Taints walks single taints with the path of each.
type Taints iter.Seq2[*field.Path, *resourceapi.DeviceTaint]

// SliceTaints leaves out lists that are too long, as Devices does.
func SliceTaints(slice *resourceapi.ResourceSlice) Taints {
	return func(yield func(*field.Path, *resourceapi.DeviceTaint) bool) {
		for at, device := range Devices(slice) {
			if len(device.Taints) > resourceapi.DeviceTaintsMaxLength {
				continue
			}
			list := at.Child("taints")
			for i := range device.Taints {
				if !yield(list.Index(i), &device.Taints[i]) {
					return
				}
			}
		}
	}
}

var RuleTaintPath = field.NewPath("spec", "taint")

func RuleTaint(rule *resourceapi.DeviceTaintRule) Taints {
	return func(yield func(*field.Path, *resourceapi.DeviceTaint) bool) {
		yield(RuleTaintPath, &rule.Spec.Taint)
	}
}
