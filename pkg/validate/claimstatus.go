package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// statusWrite is a write to the status of a claim, as an API server has prepared it.
type statusWrite struct {
	*resourceapi.ResourceClaimStatus
	// old is the stored status, empty if it is not known.
	old *resourceapi.ResourceClaimStatus
	// spec is the stored spec.
	spec claimSpec
	// deleting says that the claim is being deleted.
	deleting bool
}

var statusPath = field.NewPath("status")

// liftStatus makes rules for writes of the status rules for claims.
func liftStatus(rules Table[statusWrite]) Table[*resourceapi.ResourceClaim] {
	lifted := make(Table[*resourceapi.ResourceClaim], len(rules))
	for i, rule := range rules {
		lifted[i] = Rule[*resourceapi.ResourceClaim]{
			ID: rule.ID, Doc: rule.Doc, Class: rule.Class, Severity: rule.Severity, Beyond: rule.Beyond, Server: rule.Server, Source: rule.Source,
			Update: func(old, claim *resourceapi.ResourceClaim, c Conditions) field.ErrorList {
				return rule.Check(prepareStatus(old, claim, c), c)
			},
		}
		if rule.ID != statusImmutable {
			lifted[i].Check = func(claim *resourceapi.ResourceClaim, c Conditions) field.ErrorList {
				unallocated := &resourceapi.ResourceClaim{Spec: claim.Spec}
				return rule.Check(prepareStatus(unallocated, claim, c), c)
			}
		}
	}
	return lifted
}

// prepareStatus takes over what an update of the status cannot change, and removes the
// status of devices that the update takes out of the allocation, as API servers do.
func prepareStatus(old, claim *resourceapi.ResourceClaim, c Conditions) statusWrite {
	status := claim.Status
	w := statusWrite{&status, &old.Status, claimSpec{at: field.NewPath("spec"), ResourceClaimSpec: &old.Spec}, old.DeletionTimestamp != nil}
	if old.Status.Allocation == nil || len(status.Devices) == 0 ||
		!c.Profile.Enabled(DRAResourceClaimDeviceStatus) && len(old.Status.Devices) == 0 {
		return w
	}
	before, now := allocated(old.Status.Allocation), allocated(status.Allocation)
	status.Devices = slices.DeleteFunc(slices.Clone(status.Devices), func(d resourceapi.AllocatedDeviceStatus) bool {
		id := statusDevice(&d)
		return before[id] && !now[id]
	})
	return w
}

// allocatedDevice identifies a device, or the share of one.
type allocatedDevice struct{ driver, pool, device, share string }

func statusDevice(d *resourceapi.AllocatedDeviceStatus) allocatedDevice {
	return allocatedDevice{d.Driver, d.Pool, d.Device, share((*types.UID)(d.ShareID))}
}

func allocated(allocation *resourceapi.AllocationResult) map[allocatedDevice]bool {
	devices := map[allocatedDevice]bool{}
	if allocation != nil {
		for _, r := range allocation.Devices.Results {
			devices[allocatedDevice{r.Driver, r.Pool, r.Device, share(r.ShareID)}] = true
		}
	}
	return devices
}

func share(id *types.UID) string {
	if id == nil {
		return ""
	}
	return string(*id)
}

// granted is the allocation that an API server looks into: one that is new.
func (w statusWrite) granted() *resourceapi.AllocationResult {
	if w.old.Allocation != nil {
		return nil
	}
	return w.Allocation
}

// statusImmutable is the rule about the change of an allocation.
const statusImmutable = "allocation-immutable"

// reservedRules are the rules for who uses a claim.
var reservedRules = Table[statusWrite]{
	{
		ID: "reserved-max",
		Doc: `A claim is reserved for at most 256 consumers.

More pods cannot share a claim; the scheduler leaves the next one pending.`,
		Class:  Mirror,
		Server: "the same; 32 before 1.33",
		Source: "KEP-4381, ResourceClaimReservedForMaxSize",
		Check: func(w statusWrite, _ Conditions) field.ErrorList {
			return atMost(statusPath.Child("reservedFor"), len(w.ReservedFor), resourceapi.ResourceClaimReservedForMaxSize)
		},
	},
	{
		ID: "reserved-consumer",
		Doc: `A consumer of a claim has resource, name and uid, and stands there once.

The claim controller finds by these out whether the consumer is gone.`,
		Class:  Mirror,
		Server: "the same; 1.34 reports a repeated consumer at its uid",
		Source: "KEP-4381, ResourceClaimConsumerReference, +listMapKey=uid",
		Check:  reservedConsumer,
	},
	{
		ID: "reserved-state",
		Doc: `Only an allocated claim is reserved, and a claim that is being deleted gets no new consumers.

A consumer without devices could start too early, a new one could lose them again.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, validateResourceClaimStatusUpdate",
		Check:  reservedState,
	},
	{
		ID: statusImmutable,
		Doc: `An allocation does not change; it can only be cleared.

Pods may be running with its devices.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, validateResourceClaimStatusUpdate",
		Check:  allocationImmutable,
	},
}

func reservedConsumer(w statusWrite, c Conditions) (errs field.ErrorList) {
	list := statusPath.Child("reservedFor")
	seen := map[types.UID]bool{}
	for i, consumer := range judged(w.ReservedFor, resourceapi.ResourceClaimReservedForMaxSize, c) {
		at := list.Index(i)
		for _, part := range []struct{ name, value string }{{"resource", consumer.Resource}, {"name", consumer.Name}, {"uid", string(consumer.UID)}} {
			if part.value == "" {
				errs = append(errs, field.Required(at.Child(part.name), "identify the consumer"))
			}
		}
		if seen[consumer.UID] {
			errs = append(errs, field.Duplicate(duplicate(at, "uid", c), consumer.UID))
		}
		seen[consumer.UID] = true
	}
	return errs
}

func reservedState(w statusWrite, _ Conditions) field.ErrorList {
	at := statusPath.Child("reservedFor")
	switch {
	case len(w.ReservedFor) == 0:
	case w.Allocation == nil:
		return field.ErrorList{field.Forbidden(at, "allocate the claim first")}
	case w.deleting && slices.ContainsFunc(w.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return !slices.Contains(w.old.ReservedFor, r)
	}):
		return field.ErrorList{field.Forbidden(at, "the claim is being deleted; no consumer may be added")}
	}
	return nil
}

func allocationImmutable(w statusWrite, c Conditions) field.ErrorList {
	if w.old.Allocation == nil || w.Allocation == nil || equality.Semantic.DeepEqual(w.old.Allocation, w.Allocation) {
		return nil
	}
	before, now := w.old.Allocation.DeepCopy(), w.Allocation.DeepCopy()
	for _, allocation := range []*resourceapi.AllocationResult{before, now} {
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			fillInOperators(result.Tolerations)
			if !c.Profile.Since(37) {
				result.SkipNodeOperations = nil // not known yet
			}
		}
	}
	if equality.Semantic.DeepEqual(before, now) {
		return nil
	}
	return field.ErrorList{field.Invalid(statusPath.Child("allocation"), field.OmitValueType{}, "is immutable once it is set; clear it first")}
}
