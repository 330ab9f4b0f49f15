package validate

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A device is a device of a slice, with what a rule has to know beside it.
type device struct {
	*resourceapi.Device
	// before is the stored device of the same name, nil if there is none.
	before *resourceapi.Device
	// passedOver says that the API server's hand-written validation does not get to
	// the device, since there are too many. The declarative one does.
	passedOver bool

	index int
	list  *deviceList
}

// A deviceList is the devices of a slice that a rule walks.
type deviceList struct {
	slice, stored *resourceapi.ResourceSlice // stored is nil on creation
	profile       Profile
	places        *places
	// most is the number of devices up to which the hand-written validation looks at
	// each of them.
	most int
	// before are the stored devices by name, of several the first.
	before map[string]*resourceapi.Device
	same   *bool
}

// at is the path of the device, or of a field in it.
func (d device) at(fields ...string) *field.Path {
	path := d.list.places.at(d.index)
	for _, name := range fields {
		path = path.Child(name)
	}
	return path
}

// declared tells whether the API server's declarative validation, which has a say
// since 1.37, looks at the device: it leaves out a list of devices that has not
// changed, and nothing less than that.
func (d device) declared() bool {
	l := d.list
	if !l.profile.Since(37) {
		return false
	}
	if l.same == nil {
		same := l.stored != nil && equality.Semantic.DeepEqual(l.stored.Spec.Devices, l.slice.Spec.Devices)
		l.same = &same
	}
	return !*l.same
}

// judged tells whether the API server looks for a problem that both its validations
// know.
func (d device) judged() bool { return !d.passedOver || d.declared() }

func newDeviceList(old, slice *resourceapi.ResourceSlice, c Conditions) *deviceList {
	l := &deviceList{slice: slice, stored: old, profile: c.Profile, places: devicePlaces(slice), most: maxDevicesRead(slice, c.Profile)}
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
func walkDevices(old, slice *resourceapi.ResourceSlice, c Conditions) iter.Seq[device] {
	return func(yield func(device) bool) {
		l := c.devices(old, slice)
		passedOver := len(slice.Spec.Devices) > l.most
		if passedOver && !l.profile.Since(37) {
			return
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if !yield(device{d, l.before[d.Name], passedOver, i, l}) {
				return
			}
		}
	}
}

// maxDevicesRead is the number of devices up to which the hand-written validation
// looks at each of them.
func maxDevicesRead(slice *resourceapi.ResourceSlice, profile Profile) int {
	switch {
	case !profile.Since(35):
		return unlimited
	case len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures && slices.ContainsFunc(slice.Spec.Devices, advanced):
		return resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	default:
		return resourceapi.ResourceSliceMaxDevices
	}
}

type sliceCheck = func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList
type sliceUpdate = func(old, slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList

// eachDevice makes a check of slices of one of devices, for a rule that the
// hand-written validation of the API server has alone.
func eachDevice(check func(device, Conditions) field.ErrorList) sliceCheck {
	return everyDevice(readDevice(check))
}

// eachDeviceUpdate is eachDevice for updates, where check asks what is stored.
func eachDeviceUpdate(check func(device, Conditions) field.ErrorList) sliceUpdate {
	return everyDeviceUpdate(readDevice(check))
}

func readDevice(check func(device, Conditions) field.ErrorList) func(device, Conditions) field.ErrorList {
	return func(d device, c Conditions) field.ErrorList {
		if d.passedOver {
			return nil
		}
		return check(d, c)
	}
}

// everyDevice makes a check of slices of one of devices, for a rule that the
// declarative validation of the API server has too.
func everyDevice(check func(device, Conditions) field.ErrorList) sliceCheck {
	return func(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
		for d := range walkDevices(nil, slice, c) {
			errs = append(errs, check(d, c)...)
		}
		return errs
	}
}

func everyDeviceUpdate(check func(device, Conditions) field.ErrorList) sliceUpdate {
	return func(old, slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
		for d := range walkDevices(old, slice, c) {
			errs = append(errs, check(d, c)...)
		}
		return errs
	}
}
