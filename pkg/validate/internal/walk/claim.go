// Package walk visits the parts of claims and devices that rules check, each with its path.
package walk

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Checked returns the items of a list that an API server looks at: none of a list that is
// too long, except before 1.35.
func Checked[T any](list []T, limit int, server Server) []T {
	if server.Since(35) {
		return Bounded(list, limit)
	}
	return list
}

// FillIn sets the defaults of an API server.
func FillIn(spec *resourceapi.ResourceClaimSpec) {
	fill := func(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
		if *mode == "" {
			*mode = resourceapi.DeviceAllocationModeExactCount
		}
		if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
		FillInOperators(tolerations)
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if r := request.Exactly; r != nil {
			fill(&r.AllocationMode, &r.Count, r.Tolerations)
		}
		for j := range request.FirstAvailable {
			r := &request.FirstAvailable[j]
			fill(&r.AllocationMode, &r.Count, r.Tolerations)
		}
	}
}

func FillInOperators(tolerations []resourceapi.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}

// A DeviceRequest is what can satisfy a request: the exact request, or one of its
// alternatives (firstAvailable).
type DeviceRequest struct {
	// Name is how constraints refer to it: request, or request/alternative.
	Name        string
	Class       string
	Mode        resourceapi.DeviceAllocationMode
	Count       int64
	Tolerations []resourceapi.DeviceToleration
	Selectors   []resourceapi.DeviceSelector
	Capacity    *resourceapi.CapacityRequirements
	Derived     []resourceapi.DeviceDerivedAttribute
}

func Exact(request string, r *resourceapi.ExactDeviceRequest) DeviceRequest {
	return DeviceRequest{request, r.DeviceClassName, r.AllocationMode, r.Count, r.Tolerations, r.Selectors, r.Capacity, r.DerivedAttributes}
}

func Alternative(request string, r *resourceapi.DeviceSubRequest) DeviceRequest {
	return DeviceRequest{request + "/" + r.Name, r.DeviceClassName, r.AllocationMode, r.Count, r.Tolerations, r.Selectors, r.Capacity, r.DerivedAttributes}
}

// A DeviceRequestWalk walks device requests with the path of each.
type DeviceRequestWalk = iter.Seq2[*field.Path, DeviceRequest]

func (s ClaimSpec) findRequests(server Server) iter.Seq2[*field.Path, *resourceapi.DeviceRequest] {
	return func(yield func(*field.Path, *resourceapi.DeviceRequest) bool) {
		list := s.At.Child("devices", "requests")
		requests := Checked(s.Devices.Requests, resourceapi.DeviceRequestsMaxSize, server)
		places := requestPlaces(list, requests)
		for i := range requests {
			if !yield(places.At(i), &requests[i]) {
				return
			}
		}
	}
}

// TwoForms reports whether a request is written in both forms at once.
func TwoForms(request *resourceapi.DeviceRequest) bool {
	return request.Exactly != nil && len(request.FirstAvailable) > 0
}

// OnlyDeclared reports whether declarative validation alone looks into a request. It looks
// at no field again that an update leaves as it is.
func OnlyDeclared(request *resourceapi.DeviceRequest, server Server) bool {
	return TwoForms(request) && server.Since(37)
}

// A Reader is one of the two validations of an API server.
type Reader int

const (
	// Handwritten is the validation written by hand, the only one before 1.37.
	Handwritten Reader = iota
	// Declarative is the one that is generated from markers in the API's types. Since
	// 1.37 its errors count too. It skips what an update has not changed.
	Declarative
)

// Reads reports whether an API server looks into a request. By hand it does not since 1.35
// if the request has two forms.
func (s ClaimSpec) Reads(request *resourceapi.DeviceRequest, form form, by Reader, server Server) bool {
	if !TwoForms(request) || !server.Since(35) {
		return true
	}
	return by == Declarative && server.Since(37) && !s.had(request, form)
}

// form returns one of the two forms of a request.
type form func(*resourceapi.DeviceRequest) any

func ExactForm(r *resourceapi.DeviceRequest) any { return r.Exactly }

func AlternativesForm(r *resourceapi.DeviceRequest) any { return r.FirstAvailable }

// had reports whether the stored spec has the same request in a form.
func (s ClaimSpec) had(request *resourceapi.DeviceRequest, form form) bool {
	stored := s.storedRequest(request)
	if stored == nil {
		return false
	}
	pair := &resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{*stored.DeepCopy(), *request.DeepCopy()},
	}}
	FillIn(pair)
	return equality.Semantic.DeepEqual(form(&pair.Devices.Requests[0]), form(&pair.Devices.Requests[1]))
}

// storedRequest returns the stored request of the same name, or nil.
func (s ClaimSpec) storedRequest(request *resourceapi.DeviceRequest) *resourceapi.DeviceRequest {
	if s.Old == nil {
		return nil
	}
	for i := range s.Old.Devices.Requests {
		if stored := &s.Old.Devices.Requests[i]; stored.Name == request.Name {
			return stored
		}
	}
	return nil
}

func (s ClaimSpec) StoredAlternative(request *resourceapi.DeviceRequest, name string) *resourceapi.DeviceSubRequest {
	stored := s.storedRequest(request)
	if stored == nil {
		return nil
	}
	for i := range stored.FirstAvailable {
		if alternative := &stored.FirstAvailable[i]; alternative.Name == name {
			return alternative
		}
	}
	return nil
}

// without leaves out what is stored of a device request: declarative validation does not
// look at it again.
func (d DeviceRequest) without(stored DeviceRequest) DeviceRequest {
	if d.Mode == stored.Mode {
		d.Mode = ""
	}
	if equality.Semantic.DeepEqual(WithOperators(d.Tolerations), WithOperators(stored.Tolerations)) {
		d.Tolerations = nil
	}
	if equality.Semantic.DeepEqual(d.Selectors, stored.Selectors) {
		d.Selectors = nil
	}
	return d
}

// CheckedAlternatives walks the alternatives of a request that an API server looks at.
func (s ClaimSpec) CheckedAlternatives(at *field.Path, request *resourceapi.DeviceRequest, by Reader, server Server) iter.Seq2[*field.Path, *resourceapi.DeviceSubRequest] {
	return func(yield func(*field.Path, *resourceapi.DeviceSubRequest) bool) {
		if len(request.FirstAvailable) == 0 || !s.Reads(request, AlternativesForm, by, server) {
			return
		}
		alternatives := Checked(request.FirstAvailable, resourceapi.FirstAvailableDeviceRequestMaxSize, server)
		places := alternativePlaces(at.Child("firstAvailable"), alternatives)
		for i := range alternatives {
			if !yield(places.At(i), &alternatives[i]) {
				return
			}
		}
	}
}

func (s ClaimSpec) findDeviceRequests(by Reader, server Server) DeviceRequestWalk {
	return func(yield func(*field.Path, DeviceRequest) bool) {
		for at, request := range s.CheckedRequests(server) {
			if request.Exactly != nil && s.Reads(request, ExactForm, by, server) {
				d := Exact(request.Name, request.Exactly)
				if stored := s.storedRequest(request); stored != nil && stored.Exactly != nil && OnlyDeclared(request, server) {
					d = d.without(Exact(request.Name, stored.Exactly))
				}
				if !yield(at.Child("exactly"), d) {
					return
				}
			}
			for at, alternative := range s.CheckedAlternatives(at, request, by, server) {
				d := Alternative(request.Name, alternative)
				if stored := s.StoredAlternative(request, alternative.Name); stored != nil && OnlyDeclared(request, server) {
					d = d.without(Alternative(request.Name, stored))
				}
				if !yield(at, d) {
					return
				}
			}
		}
	}
}

// TolerationWalk walks single tolerations with the path of each.
type TolerationWalk iter.Seq2[*field.Path, *resourceapi.DeviceToleration]

func (s ClaimSpec) findTolerations(by Reader, server Server) iter.Seq2[*field.Path, *resourceapi.DeviceToleration] {
	return func(yield func(*field.Path, *resourceapi.DeviceToleration) bool) {
		for at, deviceRequest := range s.CheckedDeviceRequests(by, server) {
			tolerations := deviceRequest.Tolerations
			if len(tolerations) == 0 {
				continue
			}
			if len(tolerations) > resourceapi.DeviceTolerationsMaxLength || !server.Since(35) {
				tolerations = WithOperators(tolerations) // our defaults leave out what is too long
			}
			list := at.Child("tolerations")
			for i := range tolerations {
				if !yield(list.Index(i), &tolerations[i]) {
					return
				}
			}
		}
	}
}

// WithOperators is a copy with the default of an API server.
func WithOperators(tolerations []resourceapi.DeviceToleration) []resourceapi.DeviceToleration {
	tolerations = slices.Clone(tolerations)
	FillInOperators(tolerations)
	return tolerations
}

// ConfigWalk walks single configurations with the path of each.
type ConfigWalk iter.Seq2[*field.Path, *resourceapi.DeviceConfiguration]

// CheckedConfigs walks the configurations of a claim that an API server looks at.
func (s ClaimSpec) CheckedConfigs(server Server) ConfigWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		list := s.At.Child("devices", "config")
		configs := Checked(s.Devices.Config, resourceapi.DeviceConfigMaxSize, server)
		for i := range configs {
			if !yield(list.Index(i), &configs[i].DeviceConfiguration) {
				return
			}
		}
	}
}

// ClassConfigs walks the configurations of a class that an API server looks at.
func ClassConfigs(class *resourceapi.DeviceClass, server Server) ConfigWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		list := field.NewPath("spec", "config")
		configs := Checked(class.Spec.Config, resourceapi.DeviceConfigMaxSize, server)
		for i := range configs {
			if !yield(list.Index(i), &configs[i].DeviceConfiguration) {
				return
			}
		}
	}
}

// Bounded returns a list for its items to be checked, nothing if it is too long.
func Bounded[T any](list []T, limit int) []T {
	if len(list) > limit {
		return nil
	}
	return list
}

// SelectorWalk walks single selectors with the path of each.
type SelectorWalk iter.Seq2[*field.Path, *resourceapi.DeviceSelector]

// CheckedSelectors walks the selectors of a list that an API server looks at.
func CheckedSelectors(list *field.Path, selectors []resourceapi.DeviceSelector, server Server) SelectorWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceSelector) bool) {
		selectors := Checked(selectors, resourceapi.DeviceSelectorsMaxSize, server)
		for i := range selectors {
			if !yield(list.Index(i), &selectors[i]) {
				return
			}
		}
	}
}

func (s ClaimSpec) CheckedSelectors(server Server) SelectorWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceSelector) bool) {
		for at, deviceRequest := range s.CheckedDeviceRequests(Handwritten, server) {
			if len(deviceRequest.Selectors) == 0 {
				continue
			}
			for at, selector := range CheckedSelectors(at.Child("selectors"), deviceRequest.Selectors, server) {
				if !yield(at, selector) {
					return
				}
			}
		}
	}
}

// ClaimSpec is the spec of a claim with its path, which differs between a claim
// and a template.
type ClaimSpec struct {
	At *field.Path
	*resourceapi.ResourceClaimSpec
	// Old is the stored spec in an update; nil if nothing depends on it.
	Old *resourceapi.ResourceClaimSpec
}

// Requests walks the requests; none if they are too many, as by Devices.
func (c ClaimSpec) Requests() iter.Seq2[int, *resourceapi.DeviceRequest] {
	return func(yield func(int, *resourceapi.DeviceRequest) bool) {
		requests := Bounded(c.Devices.Requests, resourceapi.DeviceRequestsMaxSize)
		for i := range requests {
			if !yield(i, &requests[i]) {
				return
			}
		}
	}
}

// A Place is the position of a request or of one of its alternatives in a claim. Its path is built
// for a finding only: most rules find nothing.
type Place struct {
	spec ClaimSpec
	// request is an index; alternative counts from 1, and 0 is the exact request.
	request, alternative int
}

// Request is the index of the request.
func (p Place) Request() int { return p.request }

// At is the path of the request, or of a field in it.
func (p Place) At(fields ...string) *field.Path {
	requests := p.spec.Devices.Requests
	path := requestPlaces(p.spec.At.Child("devices", "requests"), requests).At(p.request)
	if p.alternative == 0 {
		path = path.Child("exactly")
	} else {
		path = alternativePlaces(path.Child("firstAvailable"), requests[p.request].FirstAvailable).At(p.alternative - 1)
	}
	for _, name := range fields {
		path = path.Child(name)
	}
	return path
}

// DeviceRequests walks what can satisfy the requests, with the place of each; lists that are
// too long are left out, as by Devices.
func (c ClaimSpec) DeviceRequests() iter.Seq2[Place, DeviceRequest] {
	return func(yield func(Place, DeviceRequest) bool) {
		for i, request := range c.Requests() {
			for alternative, deviceRequest := range DeviceRequestsOf(request) {
				if !yield(Place{c, i, alternative}, deviceRequest) {
					return
				}
			}
		}
	}
}

// DeviceRequestsOf walks what can satisfy a request: 0 is the exact request, 1 the first
// alternative.
func DeviceRequestsOf(request *resourceapi.DeviceRequest) iter.Seq2[int, DeviceRequest] {
	return func(yield func(int, DeviceRequest) bool) {
		if r := request.Exactly; r != nil {
			if !yield(0, Exact(request.Name, r)) {
				return
			}
		}
		alternatives := Bounded(request.FirstAvailable, resourceapi.FirstAvailableDeviceRequestMaxSize)
		for i := range alternatives {
			if !yield(i+1, Alternative(request.Name, &alternatives[i])) {
				return
			}
		}
	}
}

func (s ClaimSpec) walk(server Server) *claimWalk {
	start := func() *claimWalk { return &claimWalk{spec: s} }
	if server.kept == nil {
		return start()
	}
	right := func(w *claimWalk) bool {
		return w.spec.ResourceClaimSpec == s.ResourceClaimSpec && w.spec.Old == s.Old
	}
	return kept(&server.kept.claims, s.Old != nil, right, start)
}

// CheckedRequests walks the requests that an API server looks at.
func (s ClaimSpec) CheckedRequests(server Server) iter.Seq2[*field.Path, *resourceapi.DeviceRequest] {
	w := s.walk(server)
	if !w.has.requests {
		w.requests, w.has.requests = collect(s.findRequests(server)), true
	}
	return each(w.requests)
}

// CheckedDeviceRequests walks the device requests that an API server looks at.
func (s ClaimSpec) CheckedDeviceRequests(by Reader, server Server) DeviceRequestWalk {
	w := s.walk(server)
	by = w.as(by)
	if !w.has.deviceRequests[by] {
		w.deviceRequests[by], w.has.deviceRequests[by] = collect(s.findDeviceRequests(by, server)), true
	}
	return each(w.deviceRequests[by])
}

// CheckedTolerations walks the tolerations of device requests. No API server bounds their
// number, and neither does this: what is wrong with the last one counts.
func (s ClaimSpec) CheckedTolerations(by Reader, server Server) TolerationWalk {
	w := s.walk(server)
	by = w.as(by)
	if !w.has.tolerations[by] {
		w.tolerations[by], w.has.tolerations[by] = collect(s.findTolerations(by, server)), true
	}
	return TolerationWalk(each(w.tolerations[by]))
}
