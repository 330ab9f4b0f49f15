package validate

import resourceapi "k8s.io/api/resource/v1"

const anyResult = "status.allocation.devices.results[]."

// ResourceClaimStatusDrops is what API servers remove from what is written to the
// status of a claim.
var ResourceClaimStatusDrops = Drops[*resourceapi.ResourceClaim]{
	statusDrop(visitDevices, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{DRAResourceClaimDeviceStatus}, Fields: []string{"status.devices"},
	}),
	statusDrop(visitGranted, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{DRAAdminAccess}, Fields: []string{anyResult + "adminAccess"},
		Keeps: func(old *resourceapi.ResourceClaim) bool {
			return visitAdminAccess(&old.Spec, false) || visitGranted(old, false)
		},
	}),
	statusDrop(visitShares, Drop[*resourceapi.ResourceClaim]{
		Gates:  []Gate{DRAConsumableCapacity},
		Fields: []string{anyResult + "shareID", anyResult + "consumedCapacity", "status.devices[].shareID"},
		Keeps: func(old *resourceapi.ResourceClaim) bool {
			return visitCapacity(&old.Spec, false) || visitShares(old, false)
		},
	}),
	statusDrop(visitTimedBinding, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{DRADeviceBindingConditions, DRAResourceClaimDeviceStatus}, To: 34,
		Fields: []string{anyResult + "bindingConditions", anyResult + "bindingFailureConditions", "status.allocation.allocationTimestamp"},
	}),
	statusDrop(visitBinding, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{DRADeviceBindingConditions}, From: 35,
		Fields: []string{anyResult + "bindingConditions", anyResult + "bindingFailureConditions"},
	}),
	statusDrop(visitSkipped, Drop[*resourceapi.ResourceClaim]{
		Gates: []Gate{DRAOptionalNodeOperations}, Known: 37, Fields: []string{anyResult + "skipNodeOperations"},
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
