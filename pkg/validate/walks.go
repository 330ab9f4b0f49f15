package validate

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// walks keeps what the rules of a table walk, from one rule to the next: to find out
// what an API server looks at, and where that stands, takes longer than to look at it.
// Of each there are two: on creation, and beside what is stored.
type walks struct {
	devices [2]*deviceList
	claims  [2]*claimWalk
}

// kept returns the one of a pair that is the right one, or makes it.
func kept[T any](pair *[2]*T, update bool, right func(*T) bool, start func() *T) *T {
	at := 0
	if update {
		at = 1
	}
	if pair[at] == nil || !right(pair[at]) {
		pair[at] = start()
	}
	return pair[at]
}

// devices returns the devices of a slice; old is nil on creation.
func (c Conditions) devices(old, slice *resourceapi.ResourceSlice) *deviceList {
	start := func() *deviceList { return newDeviceList(old, slice, c) }
	if c.walks == nil {
		return start()
	}
	right := func(l *deviceList) bool { return l.slice == slice && l.stored == old }
	return kept(&c.walks.devices, old != nil, right, start)
}

// A claimWalk is what rules walk in the spec of a claim.
type claimWalk struct {
	spec        claimSpec
	requests    []placed[*resourceapi.DeviceRequest]
	demands     [2][]placed[demand]
	tolerations [2][]placed[*resourceapi.DeviceToleration]
	// has tells which of them are there: requests, demands, tolerations.
	has struct {
		requests             bool
		demands, tolerations [2]bool
	}
}

// placed is a value with the place where it stands.
type placed[T any] struct {
	at    *field.Path
	value T
}

func each[T any](list []placed[T]) iter.Seq2[*field.Path, T] {
	return func(yield func(*field.Path, T) bool) {
		for _, p := range list {
			if !yield(p.at, p.value) {
				return
			}
		}
	}
}

func collect[T any](walk iter.Seq2[*field.Path, T]) (list []placed[T]) {
	for at, value := range walk {
		list = append(list, placed[T]{at, value})
	}
	return list
}

// as returns the reader itself, or the one that sees the same: only into requests in both
// forms not both look.
func (w *claimWalk) as(by reader) reader {
	for i := range w.spec.Devices.Requests {
		if twoForms(&w.spec.Devices.Requests[i]) {
			return by
		}
	}
	return handwritten
}

func (s claimSpec) walk(c Conditions) *claimWalk {
	start := func() *claimWalk { return &claimWalk{spec: s} }
	if c.walks == nil {
		return start()
	}
	right := func(w *claimWalk) bool {
		return w.spec.ResourceClaimSpec == s.ResourceClaimSpec && w.spec.old == s.old
	}
	return kept(&c.walks.claims, s.old != nil, right, start)
}

// judgedRequests walks the requests that an API server looks at.
func (s claimSpec) judgedRequests(c Conditions) iter.Seq2[*field.Path, *resourceapi.DeviceRequest] {
	w := s.walk(c)
	if !w.has.requests {
		w.requests, w.has.requests = collect(s.findRequests(c)), true
	}
	return each(w.requests)
}

// judgedDemands walks the demands that an API server looks at.
func (s claimSpec) judgedDemands(by reader, c Conditions) demandWalk {
	w := s.walk(c)
	by = w.as(by)
	if !w.has.demands[by] {
		w.demands[by], w.has.demands[by] = collect(s.findDemands(by, c)), true
	}
	return each(w.demands[by])
}

// judgedTolerations walks the tolerations of demands. No API server bounds their
// number, and neither does this: what is wrong with the last one counts.
func (s claimSpec) judgedTolerations(by reader, c Conditions) tolerationWalk {
	w := s.walk(c)
	by = w.as(by)
	if !w.has.tolerations[by] {
		w.tolerations[by], w.has.tolerations[by] = collect(s.findTolerations(by, c)), true
	}
	return tolerationWalk(each(w.tolerations[by]))
}
