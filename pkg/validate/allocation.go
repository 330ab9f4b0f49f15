package validate

import (
	"cmp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// allocationGaps are the rules for allocations that no API server has.
var allocationGaps = Table[*resourceapi.ResourceClaim]{
	{
		ID: "allocation-finalizer",
		Doc: `An allocated claim has the finalizer resource.kubernetes.io/delete-protection.

The claim controller releases the allocation of a claim only if the claim has this
finalizer. Without it the devices stay allocated after the pod is gone, and a deleted claim
disappears while a pod still uses its devices. The stock scheduler adds it before it
allocates. Any other allocator has to add it to metadata.finalizers first, with an update of
the claim itself: a status update cannot change metadata.`,
		Upstream: "no version checks it",
		Source:   "KEP-4381, resourceapi.Finalizer",
		Check:    allocationFinalizer,
	},
	{
		ID: "allocation-tolerations",
		Doc: `The tolerations of an allocated device are those of its request.

The eviction controller evaluates the tolerations in the allocation, not those in the spec,
so an allocator that writes other tolerations decides which pods stay on a broken device.

The chart sends an allocation to the webhook only if the finalizer is missing, so that the
scheduler is not delayed; lint checks every claim.`,
		Upstream: "checks each toleration, not its origin",
		Source:   "KEP-5055, DeviceRequestAllocationResult.Tolerations",
		Check:    allocationTolerations,
	},
	{
		ID: "allocation-devices",
		Doc: `An allocation holds each device once, and no more devices than each request asks for.

The API server stores an allocation with the same device twice, or with more devices than
requested.

The chart sends an allocation to the webhook only if the finalizer is missing, so that the
scheduler is not delayed; lint checks every claim.`,
		Upstream: "checks neither",
		Source:   "KEP-4381, DeviceAllocationResult.Results",
		Check:    allocationDevices,
	},
	{
		ID: "allocation-world",
		Doc: `An allocated device exists, and no other claim holds it.

The API server stores an allocation of a device that is in no slice of its pool, and of a
device that another claim holds. Then two pods use a device that is meant for one. The rule
skips shareable devices, admin access, and pools without a slice, whose driver may be about
to publish.

The webhook in a cluster does not read claims; lint --existing finds a device that another
claim holds.`,
		Severity:    Warning, // What else exists may change between the allocation and our look.
		CrossObject: true,
		Upstream:    "checks neither",
		Source:      "KEP-4381, DeviceAllocationResult.Results",
		Check:       allocationInCluster,
	},
}

var allocationResults = field.NewPath("status", "allocation", "devices", "results")

func results(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return walk.Bounded(claim.Status.Allocation.Devices.Results, resourceapi.AllocationResultsMaxSize)
}

func allocationTolerations(claim *resourceapi.ResourceClaim, _ Pass) (errs field.ErrorList) {
	for i, result := range results(claim) {
		deviceRequest, known := deviceRequestOf(claim, result.Request)
		if known && !sameTolerations(deviceRequest.Tolerations, result.Tolerations) {
			errs = append(errs, field.Invalid(allocationResults.Index(i).Child("tolerations"), len(result.Tolerations),
				"must be the tolerations of the request "+result.Request))
		}
	}
	return errs
}

// deviceRequestOf finds the device request that a result satisfies: a request, or an alternative
// named request/alternative.
func deviceRequestOf(claim *resourceapi.ResourceClaim, name string) (walk.DeviceRequest, bool) {
	request, alternative, isAlternative := strings.Cut(name, "/")
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Name != request {
			continue
		}
		if e := r.Exactly; e != nil && !isAlternative {
			return walk.Exact(request, e), true
		}
		for j := range r.FirstAvailable {
			if a := &r.FirstAvailable[j]; isAlternative && a.Name == alternative {
				return walk.Alternative(request, a), true
			}
		}
	}
	return walk.DeviceRequest{}, false
}

// sameTolerations ignores the order, and fills in the operator: a manifest has the request
// as its author wrote it, while the API server defaults both lists.
func sameTolerations(a, b []resourceapi.DeviceToleration) bool {
	a, b = withOperators(a), withOperators(b)
	within := func(some, all []resourceapi.DeviceToleration) bool {
		return !slices.ContainsFunc(some, func(t resourceapi.DeviceToleration) bool {
			return !slices.ContainsFunc(all, func(u resourceapi.DeviceToleration) bool { return equality.Semantic.DeepEqual(t, u) })
		})
	}
	return len(a) == len(b) && within(a, b) && within(b, a)
}

func withOperators(tolerations []resourceapi.DeviceToleration) []resourceapi.DeviceToleration {
	filled := slices.Clone(tolerations)
	for i := range filled {
		filled[i].Operator = cmp.Or(filled[i].Operator, resourceapi.DeviceTolerationOpEqual)
	}
	return filled
}

func allocationDevices(claim *resourceapi.ResourceClaim, _ Pass) (errs field.ErrorList) {
	type device struct{ driver, pool, device, share string }
	held := map[device]bool{}
	counts := map[string]int64{}
	for i, result := range results(claim) {
		id := device{result.Driver, result.Pool, result.Device, ""}
		if result.ShareID != nil {
			id.share = string(*result.ShareID)
		}
		if held[id] {
			errs = append(errs, field.Duplicate(allocationResults.Index(i), strings.Join([]string{id.driver, id.pool, id.device}, "/")))
		}
		held[id] = true
		counts[result.Request]++
		deviceRequest, known := deviceRequestOf(claim, result.Request)
		exact := cmp.Or(deviceRequest.Mode, resourceapi.DeviceAllocationModeExactCount) == resourceapi.DeviceAllocationModeExactCount
		if known && exact && counts[result.Request] == cmp.Or(deviceRequest.Count, 1)+1 {
			errs = append(errs, field.Invalid(allocationResults.Index(i).Child("request"), result.Request, "has more devices than it asks for"))
		}
	}
	return errs
}

func allocationInCluster(claim *resourceapi.ResourceClaim, c Pass) (errs field.ErrorList) {
	if c.ClusterView == nil || claim.Status.Allocation == nil {
		return nil
	}
	holders := otherHolders(claim, c.ClusterView)
	for i, result := range results(claim) {
		published := c.ClusterView.Pool(result.Driver, result.Pool)
		if len(published) == 0 {
			continue
		}
		device := deviceIn(published, result.Device)
		at := allocationResults.Index(i).Child("device")
		if device == nil {
			errs = append(errs, field.NotFound(at, result.Device))
			continue
		}
		shared := result.AdminAccess != nil && *result.AdminAccess || device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations
		if holder, held := holders[holderOf(&result)]; held && !shared {
			errs = append(errs, field.Invalid(at, result.Device, "is allocated to the claim "+holder))
		}
	}
	return errs
}

func holderOf(result *resourceapi.DeviceRequestAllocationResult) v1alpha1.DeviceName {
	return v1alpha1.DeviceName{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
}

func deviceIn(published []*resourceapi.ResourceSlice, name string) *resourceapi.Device {
	for _, slice := range published {
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == name {
				return &slice.Spec.Devices[i]
			}
		}
	}
	return nil
}

// otherHolders are the claims other than claim that hold devices, without admin access.
func otherHolders(claim *resourceapi.ResourceClaim, clusterView ClusterView) map[v1alpha1.DeviceName]string {
	holders := map[v1alpha1.DeviceName]string{}
	for other := range clusterView.Claims() {
		if other.Namespace == claim.Namespace && other.Name == claim.Name {
			continue
		}
		for _, result := range results(other) {
			if result.AdminAccess == nil || !*result.AdminAccess {
				holders[holderOf(&result)] = other.Namespace + "/" + other.Name
			}
		}
	}
	return holders
}

func allocationFinalizer(claim *resourceapi.ResourceClaim, _ Pass) field.ErrorList {
	if claim.Status.Allocation == nil || slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("metadata", "finalizers"),
		"an allocation without the finalizer "+resourceapi.Finalizer+
			" is never released; add it by an update of the claim itself first, then write the status")}
}
