package validate

import (
	"iter"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A demand is what can satisfy a request: the exact request, or one of its
// alternatives (firstAvailable).
type demand struct {
	// name is how constraints refer to it: request, or request/alternative.
	name        string
	class       string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	tolerations []resourceapi.DeviceToleration
	selectors   []resourceapi.DeviceSelector
	capacity    *resourceapi.CapacityRequirements
	derived     []resourceapi.DeviceDerivedAttribute
}

func exactDemand(request string, r *resourceapi.ExactDeviceRequest) demand {
	return demand{request, r.DeviceClassName, r.AllocationMode, r.Count, r.Tolerations, r.Selectors, r.Capacity, r.DerivedAttributes}
}

func alternativeDemand(request string, r *resourceapi.DeviceSubRequest) demand {
	return demand{request + "/" + r.Name, r.DeviceClassName, r.AllocationMode, r.Count, r.Tolerations, r.Selectors, r.Capacity, r.DerivedAttributes}
}

// A demandWalk walks demands with the path of each.
type demandWalk = iter.Seq2[*field.Path, demand]

func (s claimSpec) findRequests(c Conditions) iter.Seq2[*field.Path, *resourceapi.DeviceRequest] {
	return func(yield func(*field.Path, *resourceapi.DeviceRequest) bool) {
		list := s.at.Child("devices", "requests")
		requests := judged(s.Devices.Requests, resourceapi.DeviceRequestsMaxSize, c)
		places := requestPlaces(list, requests)
		for i := range requests {
			if !yield(places.at(i), &requests[i]) {
				return
			}
		}
	}
}

// twoForms tells whether a request is written in both forms at once.
func twoForms(request *resourceapi.DeviceRequest) bool {
	return request.Exactly != nil && len(request.FirstAvailable) > 0
}

// onlyDeclared tells whether declarative validation alone looks into a request. It looks
// at no field again that an update leaves as it is.
func onlyDeclared(request *resourceapi.DeviceRequest, c Conditions) bool {
	return twoForms(request) && c.Profile.Since(37)
}

// A reader is one of the two validations of an API server.
type reader int

const (
	// handwritten is the validation written by hand, the only one before 1.37.
	handwritten reader = iota
	// declarative is the one that is generated from markers in the API's types. Since
	// 1.37 its errors count too. It skips what an update has not changed.
	declarative
)

// reads tells whether an API server looks into a request. By hand it does not since
// 1.35 if the request has two forms.
func (s claimSpec) reads(request *resourceapi.DeviceRequest, form form, by reader, c Conditions) bool {
	if !twoForms(request) || !c.Profile.Since(35) {
		return true
	}
	return by == declarative && c.Profile.Since(37) && !s.had(request, form)
}

// form returns one of the two forms of a request.
type form func(*resourceapi.DeviceRequest) any

func exactForm(r *resourceapi.DeviceRequest) any        { return r.Exactly }
func alternativesForm(r *resourceapi.DeviceRequest) any { return r.FirstAvailable }

// had tells whether the stored spec has the same request in a form.
func (s claimSpec) had(request *resourceapi.DeviceRequest, form form) bool {
	stored := s.storedRequest(request)
	if stored == nil {
		return false
	}
	pair := &resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{*stored.DeepCopy(), *request.DeepCopy()},
	}}
	fillIn(pair)
	return equality.Semantic.DeepEqual(form(&pair.Devices.Requests[0]), form(&pair.Devices.Requests[1]))
}

// storedRequest returns the stored request of the same name, nil if there is none.
func (s claimSpec) storedRequest(request *resourceapi.DeviceRequest) *resourceapi.DeviceRequest {
	if s.old == nil {
		return nil
	}
	for i := range s.old.Devices.Requests {
		if stored := &s.old.Devices.Requests[i]; stored.Name == request.Name {
			return stored
		}
	}
	return nil
}

func (s claimSpec) storedAlternative(request *resourceapi.DeviceRequest, name string) *resourceapi.DeviceSubRequest {
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

// without leaves out what is stored of a demand: declarative validation does not look at
// it again.
func (d demand) without(stored demand) demand {
	if d.mode == stored.mode {
		d.mode = ""
	}
	if equality.Semantic.DeepEqual(withOperators(d.tolerations), withOperators(stored.tolerations)) {
		d.tolerations = nil
	}
	if equality.Semantic.DeepEqual(d.selectors, stored.selectors) {
		d.selectors = nil
	}
	return d
}

// judgedAlternatives walks the alternatives of a request that an API server looks at.
func (s claimSpec) judgedAlternatives(at *field.Path, request *resourceapi.DeviceRequest, by reader, c Conditions) iter.Seq2[*field.Path, *resourceapi.DeviceSubRequest] {
	return func(yield func(*field.Path, *resourceapi.DeviceSubRequest) bool) {
		if len(request.FirstAvailable) == 0 || !s.reads(request, alternativesForm, by, c) {
			return
		}
		alternatives := judged(request.FirstAvailable, resourceapi.FirstAvailableDeviceRequestMaxSize, c)
		places := alternativePlaces(at.Child("firstAvailable"), alternatives)
		for i := range alternatives {
			if !yield(places.at(i), &alternatives[i]) {
				return
			}
		}
	}
}

func (s claimSpec) findDemands(by reader, c Conditions) demandWalk {
	return func(yield func(*field.Path, demand) bool) {
		for at, request := range s.judgedRequests(c) {
			if request.Exactly != nil && s.reads(request, exactForm, by, c) {
				d := exactDemand(request.Name, request.Exactly)
				if stored := s.storedRequest(request); stored != nil && stored.Exactly != nil && onlyDeclared(request, c) {
					d = d.without(exactDemand(request.Name, stored.Exactly))
				}
				if !yield(at.Child("exactly"), d) {
					return
				}
			}
			for at, alternative := range s.judgedAlternatives(at, request, by, c) {
				d := alternativeDemand(request.Name, alternative)
				if stored := s.storedAlternative(request, alternative.Name); stored != nil && onlyDeclared(request, c) {
					d = d.without(alternativeDemand(request.Name, stored))
				}
				if !yield(at, d) {
					return
				}
			}
		}
	}
}

// tolerationWalk walks single tolerations with the path of each.
type tolerationWalk iter.Seq2[*field.Path, *resourceapi.DeviceToleration]

func (s claimSpec) findTolerations(by reader, c Conditions) iter.Seq2[*field.Path, *resourceapi.DeviceToleration] {
	return func(yield func(*field.Path, *resourceapi.DeviceToleration) bool) {
		for at, demand := range s.judgedDemands(by, c) {
			tolerations := demand.tolerations
			if len(tolerations) == 0 {
				continue
			}
			if len(tolerations) > resourceapi.DeviceTolerationsMaxLength || !c.Profile.Since(35) {
				tolerations = withOperators(tolerations) // our defaults leave out what is too long
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

// withOperators is a copy with the default of an API server.
func withOperators(tolerations []resourceapi.DeviceToleration) []resourceapi.DeviceToleration {
	tolerations = slices.Clone(tolerations)
	fillInOperators(tolerations)
	return tolerations
}

// referredNames are the requests to which a claim's constraints, configurations and
// results may refer, each with its alternatives.
type referredNames map[string]map[string]bool

func (s claimSpec) referredNames() referredNames {
	names := referredNames{}
	for _, request := range s.Devices.Requests {
		alternatives := map[string]bool{}
		for _, alternative := range request.FirstAvailable {
			alternatives[alternative.Name] = true
		}
		names[request.Name] = alternatives
	}
	return names
}

// check reports a text that is neither request nor request/alternative.
func (n referredNames) check(at *field.Path, name string) (errs field.ErrorList) {
	const unknown = "must be the name of a request of the claim, or request/alternative"
	request, alternative, both := strings.Cut(name, "/")
	if strings.Contains(alternative, "/") {
		return field.ErrorList{field.Invalid(at, name, unknown)}
	}
	errs = allOf(at, request, validation.IsDNS1123Label(request))
	if both {
		errs = append(errs, allOf(at, alternative, validation.IsDNS1123Label(alternative))...)
	}
	if alternatives, known := n[request]; !known || both && !alternatives[alternative] {
		errs = append(errs, field.Invalid(at, name, unknown))
	}
	return errs
}

// checkAll reports what is wrong with a list of names, and names that stand twice.
func (n referredNames) checkAll(at *field.Path, list []string, c Conditions) (errs field.ErrorList) {
	errs = atMost(at, len(list), resourceapi.DeviceRequestsMaxSize)
	seen := map[string]bool{}
	for i, name := range judged(list, resourceapi.DeviceRequestsMaxSize, c) {
		errs = append(errs, n.check(at.Index(i), name)...)
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

// liftFor is lift for a part that depends on the conditions.
func liftFor[Whole, Part any](part func(Whole, Conditions) Part, rules Table[Part]) Table[Whole] {
	lifted := make(Table[Whole], len(rules))
	for i, rule := range rules {
		lifted[i] = Rule[Whole]{
			ID: rule.ID, Doc: rule.Doc, Class: rule.Class, Severity: rule.Severity,
			Beyond: rule.Beyond, Server: rule.Server, Source: rule.Source,
			Check: func(obj Whole, c Conditions) field.ErrorList { return rule.Check(part(obj, c), c) },
		}
	}
	return lifted
}
