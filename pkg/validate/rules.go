package validate

import "slices"

// A Description is what there is to say about a rule, whatever the type of its
// objects.
type Description struct {
	ID, Doc, Server, Source string
	Class                   Class
	Severity                Severity
	// Beyond is that of the rule.
	Beyond bool
	// Kinds are the kinds of resource.k8s.io, and of dra-steward.io, that the rule looks at.
	Kinds []string
}

// Rules describes all rules, each once, in the order of the tables.
func Rules() []Description {
	var all []Description
	all = describe(all, "ResourceSlice", ResourceSlice)
	all = describe(all, "DeviceTaintRule", DeviceTaintRule)
	all = describe(all, "DeviceTaintRule", DeviceTaintRuleStatus)
	all = describe(all, "ResourceClaim", ResourceClaim)
	all = describe(all, "ResourceClaimTemplate", ResourceClaimTemplate)
	all = describe(all, "ResourceClaim", ResourceClaimStatus)
	all = describe(all, "DeviceClass", DeviceClass)
	all = describe(all, "ResourceSlicePatch", ResourceSlicePatch)
	all = describe(all, "DeviceDrain", DeviceDrain)
	all = describe(all, PodDeletionKind, PodDeletions)
	return all
}

func describe[T any](all []Description, kind string, rules Table[T]) []Description {
	for _, rule := range rules {
		at := slices.IndexFunc(all, func(d Description) bool { return d.ID == rule.ID })
		if at < 0 {
			at = len(all)
			all = append(all, Description{ID: rule.ID, Doc: rule.Doc, Class: rule.Class, Severity: rule.Severity, Beyond: rule.Beyond, Server: rule.Server, Source: rule.Source})
		}
		if !slices.Contains(all[at].Kinds, kind) {
			all[at].Kinds = append(all[at].Kinds, kind)
		}
	}
	return all
}
