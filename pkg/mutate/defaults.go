package mutate

import "slices"

// A Description documents a default, independent of the type of its objects.
type Description struct {
	ID, Doc, Upstream, Source string
	// Kinds are the kinds of resource.k8s.io, and of dra-steward.io, that the default fills in.
	Kinds []string
}

// Defaults describes all defaults, each once, in the order of the tables.
func Defaults() []Description {
	var all []Description
	all = describe(all, "ResourceSlice", ResourceSlice())
	all = describe(all, "DeviceTaintRule", DeviceTaintRule())
	all = describe(all, "ResourceClaim", ResourceClaim())
	all = describe(all, "ResourceClaimTemplate", ResourceClaimTemplate())
	all = describe(all, "DeviceDrain", DeviceDrain())
	return all
}

func describe[T any](all []Description, kind string, defaults Table[T]) []Description {
	for _, d := range defaults {
		at := slices.IndexFunc(all, func(known Description) bool { return known.ID == d.ID })
		if at < 0 {
			at = len(all)
			all = append(all, Description{ID: d.ID, Doc: d.Doc, Upstream: d.Upstream, Source: d.Source})
		}
		all[at].Kinds = append(all[at].Kinds, kind)
	}
	return all
}
