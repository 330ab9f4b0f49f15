package validate

import (
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var specPath = field.NewPath("spec")

// ResourceClaim lists the rules for what is written to a ResourceClaim itself. A rule
// that holds for templates as well belongs into claimRules.
//
// Some of what an API server says is not in it, since it depends on who writes and
// where. adminAccess needs the label resource.kubernetes.io/admin-access on the
// namespace: the rules take it as given. And since 1.36 a status update needs the right
// to resourceclaims/binding or resourceclaims/driver.
var ResourceClaim = slices.Concat(claimMetadata, onceStored(lift(func(claim *resourceapi.ResourceClaim) claimSpec {
	return claimSpec{at: specPath, ResourceClaimSpec: &claim.Spec}
}, claimRules)), Table[*resourceapi.ResourceClaim]{
	{
		ID:     specImmutable,
		Doc:    specImmutableDoc,
		Class:  Mirror,
		Server: "the same, since 1.31; 1.34 looks into the new spec too",
		Source: "KEP-4381, ValidateResourceClaimUpdate",
		Update: func(old, claim *resourceapi.ResourceClaim, c Conditions) field.ErrorList {
			return frozen(field.NewPath("spec"), &old.Spec, &claim.Spec, c)
		},
	},
})

// ResourceClaimTemplate lists the rules for ResourceClaimTemplates.
var ResourceClaimTemplate = slices.Concat(templateMetadata, templateRules, liftTemplate(claimRules))

// ResourceClaimStatus lists the rules for what is written to the status of a
// ResourceClaim.
var ResourceClaimStatus = slices.Concat(claimStatusMetadata, liftStatus(slices.Concat(
	reservedRules, resultRules, liftFor(statusWrite.judgedTolerations, slices.Concat(singleTolerationRules, tolerationValueRules)),
	grantRules, liftFor(statusWrite.judgedConfigs, configRules), deviceStatusRules,
)), Table[*resourceapi.ResourceClaim]{
	{
		ID: "allocation-finalizer",
		Doc: `An allocated claim has the finalizer resource.kubernetes.io/delete-protection.

The claim controller takes an allocation back only from a claim with this finalizer.
Without it the devices stay allocated for ever once the pod is gone, and a deleted
claim disappears while a pod still uses its devices. The stock scheduler adds it
before it allocates. Another allocator first has to add it to metadata.finalizers
by an update of the claim itself: a status update cannot change metadata.`,
		Class:  Gap,
		Server: "no version checks it",
		Source: "KEP-4381, resourceapi.Finalizer",
		Check:  allocationFinalizer,
	},
}, allocationGaps)

// claimRules are the rules that claims and templates share.
var claimRules = slices.Concat(Table[claimSpec]{
	{
		ID: "claim-requests-max",
		Doc: `A claim has at most 32 requests.

The site limit is requestsPerClaim.`,
		Class:  Limit,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceRequestsMaxSize",
		Check:  claimRequestsMax,
	},
	{
		ID: "request-alternatives-max",
		Doc: `A request has at most 8 alternatives in firstAvailable.

The scheduler tries them one after the other on every node. The site limit is
alternativesPerRequest.`,
		Class:  Limit,
		Server: "the same, since 1.33",
		Source: "KEP-4816, FirstAvailableDeviceRequestMaxSize",
		Check:  requestAlternativesMax,
	},
	{
		ID: "claim-devices-max",
		Doc: `A claim asks for at most 32 devices, all requests together.

An allocation has room for 32 devices. The API server stores a claim that asks for
more, and its pod then stays pending for ever. Of a request with alternatives the
smallest one counts; of allocationMode All one device, since nobody knows how many
there will be. The site limit is devicesPerClaim.`,
		Class:  Gap,
		Server: "no version checks it; the allocator fails with \"exceeds the claim limit\"",
		Source: "KEP-4381, AllocationResultsMaxSize",
		Check:  claimDevicesMax,
	},
	{
		ID: "request-selectors-max",
		Doc: `A request, and each alternative of a request, has at most 32 selectors.

Each of them is evaluated for every device that the class lets through.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceSelectorsMaxSize",
		Check:  requestSelectorsMax,
	},
}, requestRules, liftFor(claimSpec.judgedSelectors, selectorRules), tolerationRules, derivedRules,
	referenceRules, liftFor(claimSpec.judgedConfigs, slices.Concat(configRules, parameterRules)), claimGaps, referenceGaps)

func claimRequestsMax(spec claimSpec, c Conditions) field.ErrorList {
	return atMost(spec.at.Child("devices", "requests"), len(spec.Devices.Requests), c.Limits.RequestsPerClaim)
}

func requestAlternativesMax(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, request := range spec.judgedRequests(c) {
		if spec.reads(request, alternativesForm, declarative, c) {
			errs = append(errs, atMostIn(at, "firstAvailable", len(request.FirstAvailable), c.Limits.AlternativesPerRequest)...)
		}
	}
	return errs
}

func claimDevicesMax(spec claimSpec, c Conditions) field.ErrorList {
	var sum int64 // of at most 32 numbers below 2^31
	for at, request := range spec.requests() {
		sum += min(fewest(at, request), math.MaxInt32)
	}
	return total(spec.at.Child("devices", "requests"), "requested devices", int(sum), c.Limits.DevicesPerClaim)
}

// fewest returns the smallest number of devices that satisfies request.
func fewest(at *field.Path, request *resourceapi.DeviceRequest) int64 {
	var least int64
	for _, demand := range requestDemands(at, request) {
		n := int64(1)
		if demand.mode != resourceapi.DeviceAllocationModeAll {
			n = max(demand.count, 1)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

func requestSelectorsMax(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, demand := range spec.judgedDemands(declarative, c) {
		errs = append(errs, atMostIn(at, "selectors", len(demand.selectors), resourceapi.DeviceSelectorsMaxSize)...)
	}
	return errs
}

func allocationFinalizer(claim *resourceapi.ResourceClaim, _ Conditions) field.ErrorList {
	if claim.Status.Allocation == nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("metadata", "finalizers"),
		"an allocation without the finalizer "+resourceapi.Finalizer+
			" is never released; add it by an update of the claim itself first, then write the status")}
}
