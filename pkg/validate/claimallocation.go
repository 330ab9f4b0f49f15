package validate

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resultRules are the rules for the devices of a new allocation.
var resultRules = Table[statusWrite]{
	{
		ID: "allocation-results-max",
		Doc: `An allocation has at most 32 devices.

A claim cannot ask for more either.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, AllocationResultsMaxSize",
		Check: func(w statusWrite, _ Conditions) field.ErrorList {
			if w.granted() == nil {
				return nil
			}
			return atMost(resultsPath, len(w.Allocation.Devices.Results), resourceapi.AllocationResultsMaxSize)
		},
	},
	{
		ID: "result-request",
		Doc: `An allocated device belongs to a request of its claim.

To request, or to request/alternative.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceRequestAllocationResult.Request",
		Check:  resultRequest,
	},
	{
		ID: "result-device",
		Doc: `An allocated device is named by driver, pool and device.

The driver is a DNS subdomain of at most 63 bytes, the pool has at most 253 bytes and
consists of DNS subdomains with slashes between, the device is a DNS label. Whether it
exists is not checked.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceRequestAllocationResult",
		Check:  resultDevice,
	},
	{
		ID: "result-binding-conditions",
		Doc: `The binding conditions of an allocated device are label names, and of both sorts or of none.

At most four of each sort, each once and in one of the sorts only. The scheduler waits for the first sort before it binds the pod, and gives up on the
second.`,
		Class:  Mirror,
		Server: "the same, since 1.34, with DRADeviceBindingConditions",
		Source: "KEP-5007, BindingConditionsMaxSize, BindingFailureConditionsMaxSize",
		Check:  resultBindingConditions,
	},
	{
		ID: "result-share-id",
		Doc: `The shareID of an allocated device is a UUID in lower case.

It tells apart the shares of a device that several claims use.`,
		Class:  Mirror,
		Server: "the same, since 1.34, with DRAConsumableCapacity",
		Source: "KEP-5075, DeviceRequestAllocationResult.ShareID",
		Check:  resultShareID,
	},
	{
		ID: "result-skip-operations",
		Doc: `The node operations that are skipped for a device exist and leave nothing half done.

Each stands there once. NodePrepareResources is skipped only together with NodeUnprepareResources, or by "*".`,
		Class:  Mirror,
		Server: "since 1.37, with DRAOptionalNodeOperations",
		Source: "validateSkipNodeOperations",
		Check:  resultSkipOperations,
	},
}

// judgedResults walks the devices of a new allocation that an API server looks at.
func (w statusWrite) judgedResults(c Conditions) iter.Seq2[*field.Path, *resourceapi.DeviceRequestAllocationResult] {
	return func(yield func(*field.Path, *resourceapi.DeviceRequestAllocationResult) bool) {
		if w.granted() == nil {
			return
		}
		results := judged(w.Allocation.Devices.Results, resourceapi.AllocationResultsMaxSize, c)
		for i := range results {
			if !yield(resultsPath.Index(i), &results[i]) {
				return
			}
		}
	}
}

// judgedTolerations walks the tolerations of a new allocation. Before 1.37 no API
// server looked at them.
func (w statusWrite) judgedTolerations(c Conditions) tolerationWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceToleration) bool) {
		if !c.Profile.Since(37) {
			return
		}
		for at, result := range w.judgedResults(c) {
			tolerations := withOperators(result.Tolerations) // our defaults leave the status out
			list := at.Child("tolerations")
			for i := range tolerations {
				if !yield(list.Index(i), &tolerations[i]) {
					return
				}
			}
		}
	}
}

func resultRequest(w statusWrite, c Conditions) (errs field.ErrorList) {
	names := w.spec.referredNames()
	for at, result := range w.judgedResults(c) {
		errs = append(errs, names.check(at.Child("request"), result.Request)...)
	}
	return errs
}

func resultDevice(w statusWrite, c Conditions) (errs field.ErrorList) {
	for at, result := range w.judgedResults(c) {
		errs = append(errs, referredDriver(at.Child("driver"), result.Driver, c)...)
		errs = append(errs, referredPool(at.Child("pool"), result.Pool)...)
		errs = append(errs, allOf(at.Child("device"), result.Device, validation.IsDNS1123Label(result.Device))...)
	}
	return errs
}

func resultBindingConditions(w statusWrite, c Conditions) (errs field.ErrorList) {
	for at, result := range w.judgedResults(c) {
		errs = append(errs, bindingParameters(at, result.BindingConditions, result.BindingFailureConditions, c)...)
	}
	return errs
}

// labelNames reports a list that is too long, its items that are no label names, and
// those that stand there twice.
func labelNames(at *field.Path, list []string, limit int, c Conditions) field.ErrorList {
	errs := atMost(at, len(list), limit)
	for i, name := range judged(list, limit, c) {
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

func resultShareID(w statusWrite, c Conditions) (errs field.ErrorList) {
	for at, result := range w.judgedResults(c) {
		if result.ShareID != nil {
			errs = append(errs, shareID(at.Child("shareID"), string(*result.ShareID))...)
		}
	}
	return errs
}

var skipOperations = []resourceapi.SkipNodeOperation{
	resourceapi.SkipNodeOperationAll, resourceapi.SkipNodeOperationNodePrepareResources, resourceapi.SkipNodeOperationNodeUnprepareResources,
}

func resultSkipOperations(w statusWrite, c Conditions) (errs field.ErrorList) {
	for at, result := range w.judgedResults(c) {
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
