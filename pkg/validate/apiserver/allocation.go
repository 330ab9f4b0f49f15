// Package apiserver has the rules of the API server of Kubernetes for devices, claims, classes and taint rules, and those of the
// CustomResourceDefinitions of dra-steward.
package apiserver

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// resultRules are the rules for the devices of a new allocation.
var resultRules = Table[statusWrite]{
	{
		ID: "allocation-results-max",
		Doc: `An allocation has at most 32 devices.

A claim cannot request more either.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, AllocationResultsMaxSize",
		Check: func(w statusWrite, _ Pass) field.ErrorList {
			if w.granted() == nil {
				return nil
			}
			return form.AtMost(resultsPath, len(w.Allocation.Devices.Results), resourceapi.AllocationResultsMaxSize)
		},
	},
	{
		ID: "result-request",
		Doc: `An allocated device belongs to a request of its claim.

The name has the form request or request/alternative.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceRequestAllocationResult.Request",
		Check:    resultRequest,
	},
	{
		ID: "result-device",
		Doc: `An allocated device is named by driver, pool and device.

The driver is a DNS subdomain of at most 63 bytes, the pool has at most 253 bytes and
consists of DNS subdomains, separated by slashes, the device is a DNS label. The rule does
not check that the device exists.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceRequestAllocationResult",
		Check:    resultDevice,
	},
	{
		ID: "result-binding-conditions",
		Doc: `An allocated device has both binding conditions and failure conditions, or neither.

Each list has at most 4 label names; a name occurs once, in one of the lists. The scheduler
waits for the binding conditions before it binds the pod, and gives up at a failure
condition.`,
		Upstream: "the same, since 1.34, with DRADeviceBindingConditions",
		Source:   "KEP-5007, BindingConditionsMaxSize, BindingFailureConditionsMaxSize",
		Check:    resultBindingConditions,
	},
	{
		ID: "result-share-id",
		Doc: `The shareID of an allocated device is a UUID in lower case.

It identifies the share of a device that several claims use.`,
		Upstream: "the same, since 1.34, with DRAConsumableCapacity",
		Source:   "KEP-5075, DeviceRequestAllocationResult.ShareID",
		Check:    resultShareID,
	},
	{
		ID: "result-skip-operations",
		Doc: `The skipped node operations of a device exist and are consistent.

Each occurs once. NodePrepareResources is skipped only together with
NodeUnprepareResources, or by "*".`,
		Upstream: "since 1.37, with DRAOptionalNodeOperations",
		Source:   "validateSkipNodeOperations",
		Check:    resultSkipOperations,
	},
}

// judgedResults walks the devices of a new allocation that an API server looks at.
func (w statusWrite) checkedResults(server walk.Server) iter.Seq2[*field.Path, *resourceapi.DeviceRequestAllocationResult] {
	return func(yield func(*field.Path, *resourceapi.DeviceRequestAllocationResult) bool) {
		if w.granted() == nil {
			return
		}
		results := walk.Checked(w.Allocation.Devices.Results, resourceapi.AllocationResultsMaxSize, server)
		for i := range results {
			if !yield(resultsPath.Index(i), &results[i]) {
				return
			}
		}
	}
}

// judgedTolerations walks the tolerations of a new allocation. Before 1.37 no API
// server looked at them.
func (w statusWrite) checkedTolerations(server walk.Server) walk.TolerationWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceToleration) bool) {
		if !server.Since(37) {
			return
		}
		for at, result := range w.checkedResults(server) {
			tolerations := walk.WithOperators(result.Tolerations) // our defaults leave the status out
			list := at.Child("tolerations")
			for i := range tolerations {
				if !yield(list.Index(i), &tolerations[i]) {
					return
				}
			}
		}
	}
}

func resultRequest(w statusWrite, c Pass) (errs field.ErrorList) {
	names := namesIn(w.spec)
	for at, result := range w.checkedResults(c.server) {
		errs = append(errs, names.check(at.Child("request"), result.Request)...)
	}
	return errs
}

func resultDevice(w statusWrite, c Pass) (errs field.ErrorList) {
	for at, result := range w.checkedResults(c.server) {
		errs = append(errs, form.Driver(at.Child("driver"), result.Driver, c.server)...)
		errs = append(errs, form.Pool(at.Child("pool"), result.Pool)...)
		errs = append(errs, form.AllOf(at.Child("device"), result.Device, validation.IsDNS1123Label(result.Device))...)
	}
	return errs
}

func resultBindingConditions(w statusWrite, c Pass) (errs field.ErrorList) {
	for at, result := range w.checkedResults(c.server) {
		errs = append(errs, bindingParameters(at, result.BindingConditions, result.BindingFailureConditions, c)...)
	}
	return errs
}

// labelNames reports a list that is too long, its items that are not label names, and
// those that occur twice.
func labelNames(at *field.Path, list []string, limit int, c Pass) field.ErrorList {
	errs := form.AtMost(at, len(list), limit)
	for i, name := range walk.Checked(list, limit, c.server) {
		errs = append(errs, metav1validation.ValidateLabelName(name, at.Index(i))...)
	}
	seen := make(map[string]bool, len(list))
	for i, name := range list {
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

func resultShareID(w statusWrite, c Pass) (errs field.ErrorList) {
	for at, result := range w.checkedResults(c.server) {
		if result.ShareID != nil {
			errs = append(errs, shareID(at.Child("shareID"), string(*result.ShareID))...)
		}
	}
	return errs
}

var skipOperations = []resourceapi.SkipNodeOperation{
	resourceapi.SkipNodeOperationAll, resourceapi.SkipNodeOperationNodePrepareResources, resourceapi.SkipNodeOperationNodeUnprepareResources,
}

func resultSkipOperations(w statusWrite, c Pass) (errs field.ErrorList) {
	for at, result := range w.checkedResults(c.server) {
		errs = append(errs, skippedOperations(at.Child("skipNodeOperations"), result.SkipNodeOperations)...)
	}
	return errs
}

func skippedOperations(at *field.Path, list []resourceapi.SkipNodeOperation) (errs field.ErrorList) {
	seen := map[resourceapi.SkipNodeOperation]bool{}
	for i, operation := range list {
		if !slices.Contains(skipOperations, operation) {
			errs = append(errs, field.NotSupported(at.Index(i), operation, skipOperations))
		}
		if seen[operation] {
			errs = append(errs, field.Duplicate(at.Index(i), operation))
		}
		seen[operation] = true
	}
	all, prepare, unprepare := skipOperations[0], skipOperations[1], skipOperations[2]
	if seen[prepare] && !seen[unprepare] && !seen[all] {
		errs = append(errs, field.Invalid(at, len(list), "NodePrepareResources cannot be skipped without NodeUnprepareResources"))
	}
	return errs
}

// grantRules are the rules for what comes with the devices of a new allocation: its
// configurations and its nodes.
var grantRules = Table[statusWrite]{
	{
		ID: "allocation-configs-max",
		Doc: `An allocation has at most 64 configurations.

The limit is the sum for a claim and its classes, 32 each.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceConfigMaxSize",
		Check: func(w statusWrite, _ Pass) field.ErrorList {
			if w.granted() == nil {
				return nil
			}
			return form.AtMost(grantedConfigs, len(w.Allocation.Devices.Config), allocationConfigsMax)
		},
	},
	{
		ID: "allocation-config-source",
		Doc: `A configuration in an allocation comes from the claim or from its class.

The source is FromClaim or FromClass. Drivers trust the configuration of a class more.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, AllocationConfigSource",
		Check:    grantSource,
	},
	{
		ID: "allocation-config-requests",
		Doc: `A configuration in an allocation names at most 32 requests of its claim, each once.

A name has the form request or request/alternative. Without names it applies to all
requests.`,
		Upstream: "the same, since 1.31; alternatives since 1.33",
		Source:   "KEP-4381, DeviceAllocationConfiguration.Requests",
		Check:    grantRequests,
	},
	{
		ID: "allocation-node-selector",
		Doc: `The node selector of an allocation is valid for a pod.

It selects the nodes on which the devices are usable.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ValidateNodeSelector",
		Check: func(w statusWrite, _ Pass) field.ErrorList {
			if allocation := w.granted(); allocation != nil && allocation.NodeSelector != nil {
				return nodeSelector(statusPath.Child("allocation", "nodeSelector"), allocation.NodeSelector)
			}
			return nil
		},
	},
}

// allocationConfigsMax is what a claim and a class have together.
const allocationConfigsMax = 2 * resourceapi.DeviceConfigMaxSize

var grantedConfigs = field.NewPath("status", "allocation", "devices", "config")

// judgedGrants returns the configurations of a new allocation that an API server looks
// at.
func (w statusWrite) checkedGrants(server walk.Server) []resourceapi.DeviceAllocationConfiguration {
	if w.granted() == nil {
		return nil
	}
	return walk.Checked(w.Allocation.Devices.Config, allocationConfigsMax, server)
}

// judgedConfigs walks the same as configurations.
func (w statusWrite) checkedConfigs(server walk.Server) walk.ConfigWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		grants := w.checkedGrants(server)
		for i := range grants {
			if !yield(grantedConfigs.Index(i), &grants[i].DeviceConfiguration) {
				return
			}
		}
	}
}

var sources = []resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClaim, resourceapi.AllocationConfigSourceClass}

func grantSource(w statusWrite, c Pass) (errs field.ErrorList) {
	for i, grant := range w.checkedGrants(c.server) {
		switch at := grantedConfigs.Index(i).Child("source"); grant.Source {
		case sources[0], sources[1]:
		case "":
			errs = append(errs, field.Required(at, "must be FromClaim or FromClass"))
		default:
			errs = append(errs, field.NotSupported(at, grant.Source, sources))
		}
	}
	return errs
}

func grantRequests(w statusWrite, c Pass) (errs field.ErrorList) {
	names := namesIn(w.spec)
	for i, grant := range w.checkedGrants(c.server) {
		errs = append(errs, names.checkAll(grantedConfigs.Index(i).Child("requests"), grant.Requests, c)...)
	}
	return errs
}

// statusWrite is a write to the status of a claim, as an API server has prepared it.
type statusWrite struct {
	*resourceapi.ResourceClaimStatus
	// old is the stored status, empty if it is not known.
	old *resourceapi.ResourceClaimStatus
	// spec is the stored spec.
	spec walk.ClaimSpec
	// deleting is true if the claim is being deleted.
	deleting bool
}

var resultsPath = field.NewPath("status", "allocation", "devices", "results")

var statusPath = field.NewPath("status")

// liftStatus makes rules for writes of the status rules for claims.
func liftStatus(rules Table[statusWrite]) Table[*resourceapi.ResourceClaim] {
	lifted := make(Table[*resourceapi.ResourceClaim], len(rules))
	for i, rule := range rules {
		lifted[i] = described[*resourceapi.ResourceClaim](rule)
		lifted[i].Update = func(old, claim *resourceapi.ResourceClaim, c Pass) field.ErrorList {
			return rule.Check(prepareStatus(old, claim, c), c)
		}
		if rule.ID != statusImmutable {
			lifted[i].Check = func(claim *resourceapi.ResourceClaim, c Pass) field.ErrorList {
				unallocated := &resourceapi.ResourceClaim{Spec: claim.Spec}
				return rule.Check(prepareStatus(unallocated, claim, c), c)
			}
		}
	}
	return lifted
}

// prepareStatus takes over what an update of the status cannot change, and removes the
// status of devices that the update takes out of the allocation, as API servers do.
func prepareStatus(old, claim *resourceapi.ResourceClaim, c Pass) statusWrite {
	status := claim.Status
	w := statusWrite{&status, &old.Status, walk.ClaimSpec{At: field.NewPath("spec"), ResourceClaimSpec: &old.Spec}, old.DeletionTimestamp != nil}
	if old.Status.Allocation == nil || len(status.Devices) == 0 ||
		!c.Profile.Enabled(gateResourceClaimDeviceStatus) && len(old.Status.Devices) == 0 {
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

More pods cannot share a claim; the next one stays pending.`,
		Upstream: "the same; 32 before 1.33",
		Source:   "KEP-4381, ResourceClaimReservedForMaxSize",
		Check: func(w statusWrite, _ Pass) field.ErrorList {
			return form.AtMost(statusPath.Child("reservedFor"), len(w.ReservedFor), resourceapi.ResourceClaimReservedForMaxSize)
		},
	},
	{
		ID: "reserved-consumer",
		Doc: `A consumer of a claim has resource, name and uid, and occurs once.

The claim controller uses them to detect that the consumer is gone.`,
		Upstream: "the same; 1.34 reports a repeated consumer at its uid",
		Source:   "KEP-4381, ResourceClaimConsumerReference, +listMapKey=uid",
		Check:    reservedConsumer,
	},
	{
		ID: "reserved-state",
		Doc: `Only an allocated claim is reserved, and a claim in deletion gets no new consumers.

A consumer without an allocation could start too early, and a new one could lose its
devices.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, validateResourceClaimStatusUpdate",
		Check:    reservedState,
	},
	{
		ID: statusImmutable,
		Doc: `An allocation does not change; it can only be cleared.

Pods can be running with its devices.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, validateResourceClaimStatusUpdate",
		Check:    allocationImmutable,
	},
}

func reservedConsumer(w statusWrite, c Pass) (errs field.ErrorList) {
	list := statusPath.Child("reservedFor")
	seen := map[types.UID]bool{}
	for i, consumer := range walk.Checked(w.ReservedFor, resourceapi.ResourceClaimReservedForMaxSize, c.server) {
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

func reservedState(w statusWrite, _ Pass) field.ErrorList {
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

func allocationImmutable(w statusWrite, c Pass) field.ErrorList {
	if w.old.Allocation == nil || w.Allocation == nil || equality.Semantic.DeepEqual(w.old.Allocation, w.Allocation) {
		return nil
	}
	before, now := w.old.Allocation.DeepCopy(), w.Allocation.DeepCopy()
	for _, allocation := range []*resourceapi.AllocationResult{before, now} {
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			walk.FillInOperators(result.Tolerations)
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
