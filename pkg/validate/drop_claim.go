package validate

import (
	resourceapi "k8s.io/api/resource/v1"
)

// ResourceClaimDrops is what API servers remove from what is written to a claim.
var ResourceClaimDrops = liftDrops("spec", func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaimSpec {
	return &claim.Spec
})

// ResourceClaimTemplateDrops is what they remove from a template.
var ResourceClaimTemplateDrops = liftDrops("spec.spec", func(template *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaimSpec {
	return &template.Spec.Spec
})

// DeviceClassDrops is what they remove from a class.
var DeviceClassDrops = Drops[*resourceapi.DeviceClass]{{
	Gates:  []Gate{DRAExtendedResource},
	Fields: []string{"spec.extendedResourceName"},
	Uses:   func(class *resourceapi.DeviceClass) bool { return class.Spec.ExtendedResourceName != nil },
	Remove: func(class *resourceapi.DeviceClass) { class.Spec.ExtendedResourceName = nil },
}}

// DeviceTaintRuleDrops is what they remove from a rule.
var DeviceTaintRuleDrops = Drops[*resourceapi.DeviceTaintRule]{{
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

// specDrop is a drop from the spec of a claim: uses and remove in one, so that they
// cannot disagree. It visits the fields and tells whether one was set.
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
	{gate: DRAPrioritizedList, fields: []string{".devices.requests[].firstAvailable"}, visit: visitAlternatives},
	{gate: DRADeviceTaints, from: 35, fields: []string{anyDemand + "tolerations"}, visit: visitTolerations},
	{gate: DRAAdminAccess, fields: []string{".devices.requests[].exactly.adminAccess"}, visit: visitAdminAccess},
	// 1.34 means to remove distinctAttribute as well, and does so from a copy.
	{gate: DRAConsumableCapacity, to: 34, fields: []string{anyDemand + "capacity"}, visit: visitDemandCapacity, keeps: visitCapacity},
	{gate: DRAConsumableCapacity, from: 35, fields: []string{anyDemand + "capacity", ".devices.constraints[].distinctAttribute"}, visit: visitCapacity},
	{gate: DRADerivedAttributes, known: 37, fields: []string{anyDemand + "derivedAttributes"}, visit: visitDerived},
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

// visit tells whether a field is set, and clears it if it has to go.
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
