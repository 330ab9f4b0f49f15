package policy

import (
	"fmt"
	"iter"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Limits bound the work that one claim, template or class can cause. They are checked
// before policies are evaluated. A zero field has the default.
type Limits struct {
	// Tolerations is the number of tolerations in all requests and alternatives of an
	// object together.
	Tolerations int
	// DistinctTolerations is the number of tolerations that differ from each other. A
	// policy reports each of them with a message of its own.
	DistinctTolerations int
	// Bytes is the size of a specification in its binary form, and of the whole object
	// as JSON where a policy reads input.raw.
	Bytes int
}

// defaultLimits are the limits where a site sets none: more than 50 times of what the
// manifests of public drivers use, and an eighth of what the API server admits.
func defaultLimits() Limits {
	return Limits{Tolerations: 512, DistinctTolerations: 128, Bytes: 128 << 10}
}

func (l Limits) withDefaults() Limits {
	defaults := defaultLimits()
	if l.Tolerations == 0 {
		l.Tolerations = defaults.Tolerations
	}
	if l.DistinctTolerations == 0 {
		l.DistinctTolerations = defaults.DistinctTolerations
	}
	if l.Bytes == 0 {
		l.Bytes = defaults.Bytes
	}
	return l
}

// An excess is a limit that an object exceeds.
type excess struct {
	path, what, name string
	value, limit     int
}

func (e *excess) Error() string {
	return fmt.Sprintf("too expensive to check: %d %s, at most %d are allowed (policies.limits.%s)", e.value, e.what, e.limit, e.name)
}

// exceeded returns the first limit that an object exceeds, nil if there is none.
// ResourceSlices have no limit: no policy denies one.
func (l Limits) exceeded(object any, raw []byte) *excess {
	if class, is := object.(*resourceapi.DeviceClass); is && class != nil {
		return l.size("spec", class.Spec.Size(), raw)
	}
	spec, base := specOf(object)
	if spec == nil {
		return nil
	}
	requests, all := base+".devices.requests", 0
	lists := tolerationsOf(spec)
	for list := range lists {
		all += len(list)
	}
	if all > l.Tolerations {
		return &excess{requests, "tolerations", "tolerations", all, l.Tolerations}
	}
	if all > l.DistinctTolerations {
		distinct := make(map[tolerationID]bool, all)
		for list, adminAccess := range lists {
			for i := range list {
				distinct[idOf(&list[i], adminAccess)] = true
			}
		}
		if len(distinct) > l.DistinctTolerations {
			return &excess{requests, "distinct tolerations", "distinctTolerations", len(distinct), l.DistinctTolerations}
		}
	}
	return l.size(base, spec.Size(), raw)
}

func (l Limits) size(path string, size int, raw []byte) *excess {
	if size > l.Bytes {
		return &excess{path, "bytes", "bytes", size, l.Bytes}
	}
	if len(raw) > l.Bytes {
		return &excess{"", "bytes of JSON", "bytes", len(raw), l.Bytes}
	}
	return nil
}

// tolerationsOf returns the lists of tolerations of a specification, and whether their request has admin access.
func tolerationsOf(spec *resourceapi.ResourceClaimSpec) iter.Seq2[[]resourceapi.DeviceToleration, bool] {
	return func(yield func([]resourceapi.DeviceToleration, bool) bool) {
		for i := range spec.Devices.Requests {
			request := &spec.Devices.Requests[i]
			if e := request.Exactly; e != nil && !yield(e.Tolerations, e.AdminAccess != nil && *e.AdminAccess) {
				return
			}
			for j := range request.FirstAvailable {
				if !yield(request.FirstAvailable[j].Tolerations, false) {
					return
				}
			}
		}
	}
}

// mayDeny reports whether a write may be denied because its policies could not be
// evaluated. Kubernetes' own components, slices and updates that leave the specification
// as it is stored are never denied for that.
func mayDeny(req Request) bool {
	if req.GeneratedBy != "" && req.GeneratedBy != User || req.Kind == "ResourceSlice" {
		return false
	}
	return absent(req.Old) || !sameSpec(req.Object, req.Old)
}

func sameSpec(object, old any) bool {
	switch object := object.(type) {
	case *resourceapi.DeviceClass:
		old, is := old.(*resourceapi.DeviceClass)
		return is && apiequality.Semantic.DeepEqual(object.Spec, old.Spec)
	case *resourceapi.DeviceTaintRule:
		old, is := old.(*resourceapi.DeviceTaintRule)
		return is && apiequality.Semantic.DeepEqual(object.Spec, old.Spec)
	}
	spec, _ := specOf(object)
	stored, _ := specOf(old)
	return spec != nil && stored != nil && apiequality.Semantic.DeepEqual(spec, stored)
}
