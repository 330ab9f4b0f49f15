package podtemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// Objects are those that pods and claims name. The zero value has none.
type Objects struct {
	templates, claims byName
	classes, extended map[string]bool
}

// byName has the names of requests by namespace and name. A namespace that is left out may be each.
type byName map[string]map[string][]string

// Add adds an object. Kinds that no pod names are ignored.
func (o *Objects) Add(object any) {
	switch object := object.(type) {
	case *resourceapi.ResourceClaimTemplate:
		o.templates.add(object.Namespace, object.Name, object.Spec.Spec)
	case *resourceapi.ResourceClaim:
		o.claims.add(object.Namespace, object.Name, object.Spec)
	case *resourceapi.DeviceClass:
		if o.classes == nil {
			o.classes, o.extended = map[string]bool{}, map[string]bool{}
		}
		o.classes[object.Name] = true
		if name := object.Spec.ExtendedResourceName; name != nil {
			o.extended[*name] = true
		}
	}
}

// HasClasses reports whether a class is known.
func (o *Objects) HasClasses() bool { return len(o.classes) > 0 }

// MissingClass says that a class does not exist; false if it does, or if no class is known.
func (o *Objects) MissingClass(name string) (message string, missing bool) {
	if len(o.classes) == 0 || o.classes[name] {
		return "", false
	}
	names := slices.Sorted(maps.Keys(o.classes))
	guess := meant(manifest.Nearest(name, names))
	if guess == "" && len(names) <= 3 {
		guess = ": there is " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("there is no DeviceClass %q%s", name, guess), true
}

func (b *byName) add(namespace, name string, spec resourceapi.ResourceClaimSpec) {
	if *b == nil {
		*b = byName{}
	}
	if (*b)[namespace] == nil {
		(*b)[namespace] = map[string][]string{}
	}
	requests := []string{}
	for _, request := range spec.Devices.Requests {
		requests = append(requests, request.Name)
	}
	if before, twice := (*b)[namespace][name]; twice { // a variant of the same object
		requests = append(requests, before...)
	}
	slices.Sort(requests)
	(*b)[namespace][name] = slices.Compact(requests)
}

func (b *byName) has() bool { return len(*b) > 0 }

// find returns the requests of a name, or the names that there are.
func (b *byName) find(namespace, name string) (requests, others []string, known bool) {
	for _, space := range slices.Sorted(maps.Keys(*b)) {
		if space != namespace && space != "" && namespace != "" {
			continue
		}
		if requests, known = (*b)[space][name]; known {
			return requests, nil, true
		}
		others = slices.AppendSeq(others, maps.Keys((*b)[space]))
	}
	slices.Sort(others)
	return nil, others, false
}
