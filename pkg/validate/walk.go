package validate

import (
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Devices walks the devices of a slice with the path of each. Of a slice with more
// devices than any API server takes it yields none: their number is the problem to
// report, and the work to look at each would have no bound.
func Devices(slice *resourceapi.ResourceSlice) iter.Seq2[*field.Path, *resourceapi.Device] {
	return func(yield func(*field.Path, *resourceapi.Device) bool) {
		if len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevices {
			return
		}
		places := devicePlaces(slice)
		for i := range slice.Spec.Devices {
			if !yield(places.at(i), &slice.Spec.Devices[i]) {
				return
			}
		}
	}
}

// places are the paths of the items of a list: by the name, and of an item with the
// name of an earlier one by the index, so that every item has a path of its own.
type places struct {
	list   *field.Path
	length int
	name   func(i int) string
	first  map[string]int // by name; nil until it is asked for
}

var devicesPath = field.NewPath("spec", "devices")

func devicePlaces(slice *resourceapi.ResourceSlice) *places {
	devices := slice.Spec.Devices
	return &places{list: devicesPath, length: len(devices), name: func(i int) string { return devices[i].Name }}
}

func requestPlaces(list *field.Path, requests []resourceapi.DeviceRequest) *places {
	return &places{list: list, length: len(requests), name: func(i int) string { return requests[i].Name }}
}

func alternativePlaces(list *field.Path, alternatives []resourceapi.DeviceSubRequest) *places {
	return &places{list: list, length: len(alternatives), name: func(i int) string { return alternatives[i].Name }}
}

func (p *places) at(index int) *field.Path {
	if name := p.name(index); p.isFirst(index) {
		return item(p.list, index, name)
	}
	return p.list.Index(index)
}

// isFirst tells whether no earlier item has the same name.
func (p *places) isFirst(index int) bool {
	if p.first == nil {
		p.first = make(map[string]int, p.length)
		for i := range p.length {
			if _, known := p.first[p.name(i)]; !known {
				p.first[p.name(i)] = i
			}
		}
	}
	return p.first[p.name(index)] == index
}

// item is the path of a list item: by its name, or by its index when it has none.
// A name that could be taken for an index is marked: spec.devices[name=0].
func item(list *field.Path, index int, name string) *field.Path {
	switch {
	case name == "":
		return list.Index(index)
	case strings.Trim(name, "0123456789") == "":
		return list.Key("name=" + name)
	default:
		return list.Key(name)
	}
}

// claimSpec is the spec of a claim with its path, which differs between a claim
// and a template.
type claimSpec struct {
	at *field.Path
	*resourceapi.ResourceClaimSpec
	// old is the stored spec in an update; nil if nothing depends on it.
	old *resourceapi.ResourceClaimSpec
}

// requests walks the requests with the path of each; none if they are too many, as
// by Devices.
func (c claimSpec) requests() iter.Seq2[*field.Path, *resourceapi.DeviceRequest] {
	return func(yield func(*field.Path, *resourceapi.DeviceRequest) bool) {
		if len(c.Devices.Requests) > resourceapi.DeviceRequestsMaxSize {
			return
		}
		places := requestPlaces(c.at.Child("devices", "requests"), c.Devices.Requests)
		for i := range c.Devices.Requests {
			if !yield(places.at(i), &c.Devices.Requests[i]) {
				return
			}
		}
	}
}

// demands walks the demands of all requests with the path of each.
func (c claimSpec) demands() iter.Seq2[*field.Path, demand] {
	return func(yield func(*field.Path, demand) bool) {
		for at, request := range c.requests() {
			for at, demand := range requestDemands(at, request) {
				if !yield(at, demand) {
					return
				}
			}
		}
	}
}

func requestDemands(at *field.Path, request *resourceapi.DeviceRequest) iter.Seq2[*field.Path, demand] {
	return func(yield func(*field.Path, demand) bool) {
		if r := request.Exactly; r != nil {
			if !yield(at.Child("exactly"), exactDemand(request.Name, r)) {
				return
			}
		}
		if len(request.FirstAvailable) > resourceapi.FirstAvailableDeviceRequestMaxSize {
			return
		}
		places := alternativePlaces(at.Child("firstAvailable"), request.FirstAvailable)
		for i := range request.FirstAvailable {
			if !yield(places.at(i), alternativeDemand(request.Name, &request.FirstAvailable[i])) {
				return
			}
		}
	}
}

// namesWhere returns the names in values for which is holds, sorted. Only those are
// sorted: a full slice has 4096 names, and almost never a wrong one.
func namesWhere[V any](values map[resourceapi.QualifiedName]V, is func(resourceapi.QualifiedName) bool) []resourceapi.QualifiedName {
	return keysOf(values, func(name resourceapi.QualifiedName, _ V) bool { return is(name) })
}

// taints walks single taints with the path of each.
type taints iter.Seq2[*field.Path, *resourceapi.DeviceTaint]

// sliceTaints leaves out lists that are too long, as Devices does.
func sliceTaints(slice *resourceapi.ResourceSlice) taints {
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

var ruleTaintPath = field.NewPath("spec", "taint")

func ruleTaint(rule *resourceapi.DeviceTaintRule) taints {
	return func(yield func(*field.Path, *resourceapi.DeviceTaint) bool) {
		yield(ruleTaintPath, &rule.Spec.Taint)
	}
}

// tolerations walks single tolerations with the path of each; lists that are too
// long are left out, as by Devices.
func (c claimSpec) tolerations() iter.Seq2[*field.Path, *resourceapi.DeviceToleration] {
	return func(yield func(*field.Path, *resourceapi.DeviceToleration) bool) {
		for at, demand := range c.demands() {
			if len(demand.tolerations) > resourceapi.DeviceTolerationsMaxLength {
				continue
			}
			list := at.Child("tolerations")
			for i := range demand.tolerations {
				if !yield(list.Index(i), &demand.tolerations[i]) {
					return
				}
			}
		}
	}
}
