package apiserver

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// A Drop is a set of fields that an API server removes silently while a feature gate is
// off, unless the stored object uses them already. It does so after mutating admission and
// before validation: what is dropped is never checked.
type Drop[T any] struct {
	// Gates have to be on for the fields to be kept.
	Gates []Gate
	// Known is the first minor with the fields; an older API server does not read them
	// at all, whatever is stored. From and To are the first and the last minor that
	// remove them. 0 sets no bound.
	Known, From, To int
	// Fields are the paths of the fields, with [] for any item.
	Fields []string
	// Uses reports whether obj uses one of the fields.
	Uses func(obj T) bool
	// Keeps reports whether old uses the feature already, so that nothing is removed. Nil
	// means Uses.
	Keeps func(old T) bool
	// Remove takes the fields out of obj.
	Remove func(obj T)
}

// Drops lists the fields of a kind that depend on feature gates.
type Drops[T any] []Drop[T]

// Apply removes from obj what the API server of profile does not keep, and returns
// a sentence for every set of fields that obj loses. old is what is stored, the zero
// value on creation; isUpdate tells the difference.
func (d Drops[T]) Apply(old, obj T, isUpdate bool, profile Profile) (lost []string) {
	for _, drop := range d {
		why := drop.why(profile)
		if why == "" || !drop.in(profile) || isUpdate && drop.keeps(old, profile) || !drop.Uses(obj) {
			continue
		}
		drop.Remove(obj)
		lost = append(lost, strings.Join(drop.Fields, ", ")+" are dropped "+why)
	}
	return lost
}

// Unknown lists the fields that an API server of the profile's minor does not know.
func (d Drops[T]) Unknown(profile Profile) (fields []string) {
	for _, drop := range d {
		if !profile.Since(drop.Known) {
			fields = append(fields, drop.Fields...)
		}
	}
	return fields
}

// Threatens reports whether an API server of profile removes fields that obj uses, unless
// the stored object uses them too.
func (d Drops[T]) Threatens(obj T, profile Profile) bool {
	return slices.ContainsFunc(d, func(drop Drop[T]) bool { return drop.why(profile) != "" && drop.in(profile) && drop.Uses(obj) })
}

// in reports whether an API server of the profile's minor removes the fields.
func (d Drop[T]) in(profile Profile) bool {
	return profile.Since(d.From) && (d.To == 0 || !profile.Since(d.To+1))
}

func (d Drop[T]) keeps(old T, profile Profile) bool {
	if !profile.Since(d.Known) {
		return false
	}
	if d.Keeps != nil {
		return d.Keeps(old)
	}
	return d.Uses(old)
}

// why is the reason for which an API server of the profile removes the fields, or "" if it
// keeps them.
func (d Drop[T]) why(profile Profile) string {
	var missing []Gate
	for _, gate := range d.Gates {
		if !profile.Enabled(gate) {
			missing = append(missing, gate)
		}
	}
	switch {
	case len(missing) > 0:
		return "without the feature gate " + join(missing)
	case !profile.Since(d.Known):
		return "by an API server that does not know them"
	default:
		return ""
	}
}

// ResourceClaimDrops returns what API servers remove from what is written to a claim.
func ResourceClaimDrops() Drops[*resourceapi.ResourceClaim] { return slices.Clone(claimDrops) }

var claimDrops = liftDrops("spec", func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaimSpec {
	return &claim.Spec
})

// ResourceClaimTemplateDrops returns what they remove from a template.
func ResourceClaimTemplateDrops() Drops[*resourceapi.ResourceClaimTemplate] {
	return slices.Clone(templateDrops)
}

var templateDrops = liftDrops("spec.spec", func(template *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaimSpec {
	return &template.Spec.Spec
})

// DeviceClassDrops returns what they remove from a class.
func DeviceClassDrops() Drops[*resourceapi.DeviceClass] { return slices.Clone(classDrops) }

var classDrops = Drops[*resourceapi.DeviceClass]{{
	Gates:  []Gate{gateExtendedResource},
	Fields: []string{"spec.extendedResourceName"},
	Uses:   func(class *resourceapi.DeviceClass) bool { return class.Spec.ExtendedResourceName != nil },
	Remove: func(class *resourceapi.DeviceClass) { class.Spec.ExtendedResourceName = nil },
}}

// DeviceTaintRuleDrops returns what they remove from a DeviceTaintRule.
func DeviceTaintRuleDrops() Drops[*resourceapi.DeviceTaintRule] { return slices.Clone(taintRuleDrops) }

var taintRuleDrops = Drops[*resourceapi.DeviceTaintRule]{{
	Known:  35,
	Fields: []string{"status"},
	Uses:   func(rule *resourceapi.DeviceTaintRule) bool { return len(rule.Status.Conditions) > 0 },
	Remove: func(rule *resourceapi.DeviceTaintRule) { rule.Status = resourceapi.DeviceTaintRuleStatus{} },
}}

// A demandPart is what a request and an alternative have in common that depends on
// feature gates.
type demandPart struct {
	tolerations *[]resourceapi.DeviceToleration
	capacity    **resourceapi.CapacityRequirements
	derived     *[]resourceapi.DeviceDerivedAttribute
}

// demandParts returns those of all requests, however many there are.
func demandParts(spec *resourceapi.ResourceClaimSpec) (parts []demandPart) {
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if r := request.Exactly; r != nil {
			parts = append(parts, demandPart{&r.Tolerations, &r.Capacity, &r.DerivedAttributes})
		}
		for j := range request.FirstAvailable {
			r := &request.FirstAvailable[j]
			parts = append(parts, demandPart{&r.Tolerations, &r.Capacity, &r.DerivedAttributes})
		}
	}
	return parts
}

// specDrop is a drop from the spec of a claim: uses and remove in one, so that they cannot
// disagree. It visits the fields and reports whether one was set.
type specDrop struct {
	gate            Gate
	known, from, to int
	fields          []string
	visit           func(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool)
	// keeps is as in Drop.
	keeps func(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool)
}

const anyDemand = ".devices.requests[].exactly|firstAvailable[]."

// specDrops are in the order in which API servers remove.
var specDrops = []specDrop{
	{gate: gatePrioritizedList, fields: []string{".devices.requests[].firstAvailable"}, visit: visitAlternatives},
	{gate: gateDeviceTaints, from: 35, fields: []string{anyDemand + "tolerations"}, visit: visitTolerations},
	{gate: gateAdminAccess, fields: []string{".devices.requests[].exactly.adminAccess"}, visit: visitAdminAccess},
	// 1.34 means to remove distinctAttribute as well, and does so from a copy.
	{gate: gateConsumableCapacity, to: 34, fields: []string{anyDemand + "capacity"}, visit: visitDemandCapacity, keeps: visitCapacity},
	{gate: gateConsumableCapacity, from: 35, fields: []string{anyDemand + "capacity", ".devices.constraints[].distinctAttribute"}, visit: visitCapacity},
	{gate: gateDerivedAttributes, known: 37, fields: []string{anyDemand + "derivedAttributes"}, visit: visitDerived},
}

func liftDrops[T any](prefix string, spec func(T) *resourceapi.ResourceClaimSpec) (drops Drops[T]) {
	for _, drop := range specDrops {
		lifted := Drop[T]{
			Gates: []Gate{drop.gate}, Known: drop.known, From: drop.from, To: drop.to,
			Uses:   func(obj T) bool { return drop.visit(spec(obj), false) },
			Remove: func(obj T) { drop.visit(spec(obj), true) },
		}
		if drop.keeps != nil {
			lifted.Keeps = func(old T) bool { return drop.keeps(spec(old), false) }
		}
		for _, field := range drop.fields {
			lifted.Fields = append(lifted.Fields, prefix+field)
		}
		drops = append(drops, lifted)
	}
	return drops
}

// visit reports whether a field is set, and clears it if remove is true.
func visit[T any](field *T, set, remove bool) bool {
	if set && remove {
		var none T
		*field = none
	}
	return set
}

func visitAlternatives(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for i := range spec.Devices.Requests {
		list := &spec.Devices.Requests[i].FirstAvailable
		set = visit(list, len(*list) > 0, remove) || set
	}
	return set
}

func visitTolerations(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for _, part := range demandParts(spec) {
		set = visit(part.tolerations, len(*part.tolerations) > 0, remove) || set
	}
	return set
}

func visitAdminAccess(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for i := range spec.Devices.Requests {
		if r := spec.Devices.Requests[i].Exactly; r != nil {
			set = visit(&r.AdminAccess, r.AdminAccess != nil, remove) || set
		}
	}
	return set
}

func visitCapacity(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for i := range spec.Devices.Constraints {
		c := &spec.Devices.Constraints[i]
		set = visit(&c.DistinctAttribute, c.DistinctAttribute != nil, remove) || set
	}
	return visitDemandCapacity(spec, remove) || set
}

func visitDemandCapacity(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for _, part := range demandParts(spec) {
		set = visit(part.capacity, *part.capacity != nil, remove) || set
	}
	return set
}

func visitDerived(spec *resourceapi.ResourceClaimSpec, remove bool) (set bool) {
	for _, part := range demandParts(spec) {
		set = visit(part.derived, len(*part.derived) > 0, remove) || set
	}
	return set
}

const anyResult = "status.allocation.devices.results[]."

// ResourceClaimStatusDrops returns what they remove from the status of a claim.
func ResourceClaimStatusDrops() Drops[*resourceapi.ResourceClaim] {
	return slices.Clone(claimStatusDrops)
}

var claimStatusDrops = Drops[*resourceapi.ResourceClaim]{
	statusDrop(visitDevices, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{gateResourceClaimDeviceStatus}, Fields: []string{"status.devices"},
	}),
	statusDrop(visitGranted, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{gateAdminAccess}, Fields: []string{anyResult + "adminAccess"},
		Keeps: func(old *resourceapi.ResourceClaim) bool {
			return visitAdminAccess(&old.Spec, false) || visitGranted(old, false)
		},
	}),
	statusDrop(visitShares, Drop[*resourceapi.ResourceClaim]{
		Gates:  []Gate{gateConsumableCapacity},
		Fields: []string{anyResult + "shareID", anyResult + "consumedCapacity", "status.devices[].shareID"},
		Keeps: func(old *resourceapi.ResourceClaim) bool {
			return visitCapacity(&old.Spec, false) || visitShares(old, false)
		},
	}),
	statusDrop(visitTimedBinding, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{gateDeviceBindingConditions, gateResourceClaimDeviceStatus}, To: 34,
		Fields: []string{anyResult + "bindingConditions", anyResult + "bindingFailureConditions", "status.allocation.allocationTimestamp"},
	}),
	statusDrop(visitBinding, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{gateDeviceBindingConditions}, From: 35,
		Fields: []string{anyResult + "bindingConditions", anyResult + "bindingFailureConditions"},
	}),
	statusDrop(visitSkipped, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{gateOptionalNodeOperations}, Known: 37, Fields: []string{anyResult + "skipNodeOperations"},
	}),
}

// statusDrop completes a drop by a visit of its fields.
func statusDrop(visit func(claim *resourceapi.ResourceClaim, remove bool) (set bool), drop Drop[*resourceapi.ResourceClaim]) Drop[*resourceapi.ResourceClaim] {
	drop.Uses = func(claim *resourceapi.ResourceClaim) bool { return visit(claim, false) }
	drop.Remove = func(claim *resourceapi.ResourceClaim) { visit(claim, true) }
	return drop
}

// allResults returns the allocated devices, however many there are.
func allResults(claim *resourceapi.ResourceClaim) (results []*resourceapi.DeviceRequestAllocationResult) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		results = append(results, &claim.Status.Allocation.Devices.Results[i])
	}
	return results
}

func visitDevices(claim *resourceapi.ResourceClaim, remove bool) bool {
	return visit(&claim.Status.Devices, len(claim.Status.Devices) > 0, remove)
}

func visitGranted(claim *resourceapi.ResourceClaim, remove bool) (set bool) {
	for _, result := range allResults(claim) {
		set = visit(&result.AdminAccess, result.AdminAccess != nil, remove) || set
	}
	return set
}

func visitShares(claim *resourceapi.ResourceClaim, remove bool) (set bool) {
	for _, result := range allResults(claim) {
		set = visit(&result.ShareID, result.ShareID != nil, remove) || set
		set = visit(&result.ConsumedCapacity, result.ConsumedCapacity != nil, remove) || set
	}
	for i := range claim.Status.Devices {
		device := &claim.Status.Devices[i]
		set = visit(&device.ShareID, device.ShareID != nil, remove) || set
	}
	return set
}

func visitBinding(claim *resourceapi.ResourceClaim, remove bool) (set bool) {
	for _, result := range allResults(claim) {
		set = visit(&result.BindingConditions, result.BindingConditions != nil, remove) || set
		set = visit(&result.BindingFailureConditions, result.BindingFailureConditions != nil, remove) || set
	}
	return set
}

func visitTimedBinding(claim *resourceapi.ResourceClaim, remove bool) bool {
	set := visitBinding(claim, remove)
	if allocation := claim.Status.Allocation; allocation != nil {
		set = visit(&allocation.AllocationTimestamp, allocation.AllocationTimestamp != nil, remove) || set
	}
	return set
}

func visitSkipped(claim *resourceapi.ResourceClaim, remove bool) (set bool) {
	for _, result := range allResults(claim) {
		set = visit(&result.SkipNodeOperations, len(result.SkipNodeOperations) > 0, remove) || set
	}
	return set
}

// ResourceSliceDrops returns what they remove from a slice.
func ResourceSliceDrops() Drops[*resourceapi.ResourceSlice] { return slices.Clone(sliceDrops) }

var sliceDrops = Drops[*resourceapi.ResourceSlice]{
	inDevices([]Gate{gateDeviceTaints}, []string{"spec.devices[].taints"},
		func(d *resourceapi.Device) bool { return len(d.Taints) > 0 },
		func(d *resourceapi.Device) { d.Taints = nil }),
	{
		Gates:  []Gate{gatePartitionableDevices},
		Fields: []string{"spec.sharedCounters", "spec.perDeviceNodeSelection", "spec.devices[].consumesCounters", "spec.devices[].nodeName", "spec.devices[].nodeSelector", "spec.devices[].allNodes"},
		Uses: func(s *resourceapi.ResourceSlice) bool {
			return len(s.Spec.SharedCounters) > 0 || s.Spec.PerDeviceNodeSelection != nil || slices.ContainsFunc(s.Spec.Devices, partitioned)
		},
		Remove: func(s *resourceapi.ResourceSlice) {
			s.Spec.SharedCounters, s.Spec.PerDeviceNodeSelection = nil, nil
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				d.ConsumesCounters, d.NodeName, d.NodeSelector, d.AllNodes = nil, nil, nil, nil
			}
		},
	},
	inDevices([]Gate{gateDeviceBindingConditions, gateResourceClaimDeviceStatus},
		[]string{"spec.devices[].bindingConditions", "spec.devices[].bindingFailureConditions", "spec.devices[].bindsToNode"},
		func(d *resourceapi.Device) bool {
			return len(d.BindingConditions) > 0 || len(d.BindingFailureConditions) > 0 || d.BindsToNode != nil
		},
		func(d *resourceapi.Device) {
			d.BindingConditions, d.BindingFailureConditions, d.BindsToNode = nil, nil, nil
		}),
	inDevices([]Gate{gateConsumableCapacity},
		[]string{"spec.devices[].allowMultipleAllocations", "spec.devices[].capacity[].requestPolicy"},
		shared, unshare),
	since(37, inDevices([]Gate{gateDeviceCompatibilityGroups}, []string{"spec.devices[].consumesCounters[].compatibilityGroups"},
		func(d *resourceapi.Device) bool {
			return slices.ContainsFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return len(c.CompatibilityGroups) > 0 })
		},
		func(d *resourceapi.Device) {
			for i := range d.ConsumesCounters {
				d.ConsumesCounters[i].CompatibilityGroups = nil
			}
		})),
	since(37, inDevices([]Gate{gateNodeAllocatableResources}, []string{"spec.devices[].nodeAllocatableResources"},
		func(d *resourceapi.Device) bool { return len(d.NodeAllocatableResources) > 0 },
		func(d *resourceapi.Device) { d.NodeAllocatableResources = nil })),
	since(36, inDevices([]Gate{gateListTypeAttributes},
		[]string{"spec.devices[].attributes[].ints", "spec.devices[].attributes[].bools", "spec.devices[].attributes[].strings", "spec.devices[].attributes[].versions"},
		func(d *resourceapi.Device) bool { return walk.HasLists(*d) }, unlist)),
	{
		Gates: []Gate{gatePartitionableDevicesType}, Known: 37, Fields: []string{"spec.partitionTypeAttribute"},
		Uses:   func(s *resourceapi.ResourceSlice) bool { return s.Spec.PartitionTypeAttribute != nil },
		Remove: func(s *resourceapi.ResourceSlice) { s.Spec.PartitionTypeAttribute = nil },
	},
	{
		Gates: []Gate{gateOptionalNodeOperations}, Known: 37, Fields: []string{"spec.skipNodeOperations"},
		Uses:   func(s *resourceapi.ResourceSlice) bool { return len(s.Spec.SkipNodeOperations) > 0 },
		Remove: func(s *resourceapi.ResourceSlice) { s.Spec.SkipNodeOperations = nil },
	},
}

// since makes a drop whose fields the API has since a minor.
func since(minor int, drop Drop[*resourceapi.ResourceSlice]) Drop[*resourceapi.ResourceSlice] {
	drop.Known = minor
	return drop
}

// inDevices makes a Drop of fields that are in devices only.
func inDevices(gates []Gate, fields []string, uses func(*resourceapi.Device) bool, remove func(*resourceapi.Device)) Drop[*resourceapi.ResourceSlice] {
	return Drop[*resourceapi.ResourceSlice]{
		Gates: gates, Fields: fields,
		Uses: func(s *resourceapi.ResourceSlice) bool {
			return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return uses(&d) })
		},
		Remove: func(s *resourceapi.ResourceSlice) {
			for i := range s.Spec.Devices {
				remove(&s.Spec.Devices[i])
			}
		},
	}
}

func partitioned(d resourceapi.Device) bool {
	return len(d.ConsumesCounters) > 0 || d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil
}

func shared(d *resourceapi.Device) bool {
	if d.AllowMultipleAllocations != nil {
		return true
	}
	for _, capacity := range d.Capacity {
		if capacity.RequestPolicy != nil {
			return true
		}
	}
	return false
}

func unshare(d *resourceapi.Device) {
	d.AllowMultipleAllocations = nil
	for name, capacity := range d.Capacity {
		capacity.RequestPolicy = nil
		d.Capacity[name] = capacity
	}
}

func unlist(d *resourceapi.Device) {
	for name, a := range d.Attributes {
		a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
		d.Attributes[name] = a
	}
}
