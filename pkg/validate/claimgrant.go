package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// grantRules are the rules for what comes with the devices of a new allocation: its
// configurations and its nodes.
var grantRules = Table[statusWrite]{
	{
		ID: "allocation-configs-max",
		Doc: `An allocation has at most 64 configurations.

As many as a claim and its classes can have, 32 and 32.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceConfigMaxSize",
		Check: func(w statusWrite, _ Conditions) field.ErrorList {
			if w.granted() == nil {
				return nil
			}
			return atMost(grantedConfigs, len(w.Allocation.Devices.Config), allocationConfigsMax)
		},
	},
	{
		ID: "allocation-config-source",
		Doc: `A configuration in an allocation comes from the claim or from its class.

FromClaim or FromClass. Drivers trust those of a class more.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, AllocationConfigSource",
		Check:  grantSource,
	},
	{
		ID: "allocation-config-requests",
		Doc: `A configuration in an allocation names at most 32 requests of its claim, each once.

By request, or by request/alternative. Without names it is for all requests.`,
		Class:  Mirror,
		Server: "the same, since 1.31; alternatives since 1.33",
		Source: "KEP-4381, DeviceAllocationConfiguration.Requests",
		Check:  grantRequests,
	},
	{
		ID: "allocation-node-selector",
		Doc: `The node selector of an allocation is one that a pod could have.

It says on which nodes the devices can be used.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ValidateNodeSelector",
		Check: func(w statusWrite, _ Conditions) field.ErrorList {
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
func (w statusWrite) judgedGrants(c Conditions) []resourceapi.DeviceAllocationConfiguration {
	if w.granted() == nil {
		return nil
	}
	return judged(w.Allocation.Devices.Config, allocationConfigsMax, c)
}

// judgedConfigs walks the same as configurations.
func (w statusWrite) judgedConfigs(c Conditions) configWalk {
	return func(yield func(*field.Path, *resourceapi.DeviceConfiguration) bool) {
		grants := w.judgedGrants(c)
		for i := range grants {
			if !yield(grantedConfigs.Index(i), &grants[i].DeviceConfiguration) {
				return
			}
		}
	}
}

var sources = []resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClaim, resourceapi.AllocationConfigSourceClass}

func grantSource(w statusWrite, c Conditions) (errs field.ErrorList) {
	for i, grant := range w.judgedGrants(c) {
		switch at := grantedConfigs.Index(i).Child("source"); grant.Source {
		case sources[0], sources[1]:
		case "":
			errs = append(errs, field.Required(at, "say where the configuration comes from: FromClaim or FromClass"))
		default:
			errs = append(errs, field.NotSupported(at, grant.Source, sources))
		}
	}
	return errs
}

func grantRequests(w statusWrite, c Conditions) (errs field.ErrorList) {
	names := w.spec.referredNames()
	for i, grant := range w.judgedGrants(c) {
		errs = append(errs, names.checkAll(grantedConfigs.Index(i).Child("requests"), grant.Requests, c)...)
	}
	return errs
}
