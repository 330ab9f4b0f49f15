package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviceNodeRules are the rules for devices that say for themselves where they are.
var deviceNodeRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "device-nodes",
		Doc: `A device says which nodes can reach it if, and only if, its slice leaves that to it.

With perDeviceNodeSelection each device has one of nodeName, nodeSelector and allNodes.
Without it the slice says it for all of them, and a device that says something else
would not be believed.`,
		Class:  Mirror,
		Server: "the same, since 1.33, with DRAPartitionableDevices",
		Source: "KEP-4815, ResourceSliceSpec.PerDeviceNodeSelection",
		Check: func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
			each := slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection
			return eachDevice(func(d device, _ Conditions) field.ErrorList {
				switch {
				case each:
					return ownNodes(d)
				case d.NodeName == nil && d.NodeSelector == nil && d.AllNodes == nil:
					return nil
				}
				return field.ErrorList{field.Invalid(d.at(), d.Name, "may say which nodes reach it only with perDeviceNodeSelection of the slice")}
			})(slice, c)
		},
	},
}

func ownNodes(d device) (errs field.ErrorList) {
	ways := 0
	if d.NodeName != nil {
		if *d.NodeName == "" {
			errs = append(errs, field.Invalid(d.at("nodeName"), "", "must be the name of a node, or left out"))
		} else {
			ways++
			errs = append(errs, nodeName(d.at("nodeName"), *d.NodeName)...)
		}
	}
	if d.NodeSelector != nil {
		ways++
		errs = append(errs, nodeSelector(d.at("nodeSelector"), d.NodeSelector)...)
	}
	if d.AllNodes != nil {
		if *d.AllNodes {
			ways++
		} else {
			errs = append(errs, field.Invalid(d.at("allNodes"), false, "must be true, or left out"))
		}
	}
	const one = "exactly one of nodeName, nodeSelector and allNodes must be set"
	switch {
	case ways == 0:
		errs = append(errs, field.Required(d.at(), one))
	case ways > 1:
		errs = append(errs, field.Invalid(d.at(), ways, one))
	}
	return errs
}
