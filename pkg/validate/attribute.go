package validate

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// attributeRules are the rules for the single attributes and capacities of the
// devices of a slice.
var attributeRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "attribute-name",
		Doc: `The name of an attribute or capacity is a C identifier, with or without a domain.

The identifier has at most 32 bytes; the domain before the slash is a DNS subdomain
of at most 63 bytes. Without a domain the name belongs to the driver's own domain.`,
		Class:  Mirror,
		Server: "the same, since 1.31; names with two or more slashes pass it unchecked; since 1.37 an unchanged capacity is not looked at",
		Source: "KEP-4381, QualifiedName, DeviceMaxDomainLength, DeviceMaxIDLength",
		Check:  eachDevice(attributeName),
		Update: eachDeviceUpdate(attributeName),
	},
}

func attributeName(d device, c Conditions) field.ErrorList {
	errs := badKeys(d, "attributes", d.Attributes, c)
	if capacities := badKeys(d, "capacity", d.Capacity, c); len(capacities) > 0 && !d.sameCapacity() {
		errs = append(errs, capacities...)
	}
	return errs
}

// badKeys reports the keys of a map that are no names of attributes: at the map, and
// until 1.35 at the key.
func badKeys[V any](d device, list string, values map[resourceapi.QualifiedName]V, c Conditions) (errs field.ErrorList) {
	bad := keysOf(values, func(name resourceapi.QualifiedName, _ V) bool { return !plainName(string(name)) })
	for _, name := range bad {
		at := d.at(list)
		if !c.Profile.Since(36) {
			at = key(at, string(name))
		}
		errs = append(errs, qualifiedName(at, string(name), c)...)
	}
	return errs
}

// keysOf returns the keys of the items of values that are asked for, sorted. It costs
// nothing where there are none.
func keysOf[K ~string, V any](values map[K]V, asked func(K, V) bool) (keys []K) {
	for name, value := range values {
		if asked(name, value) {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// key is the path of an item of a map of attributes or capacities. The API server
// leaves out the middle of a key that is too long.
func key(list *field.Path, name string) *field.Path {
	return list.Key(shorten(name, resourceapi.DeviceMaxDomainLength+1+resourceapi.DeviceMaxIDLength))
}

func shorten(text string, limit int) string {
	const gap = "..."
	if len(text) <= limit {
		return text
	}
	rest := limit - len(gap)
	return text[:(rest+1)/2] + gap + text[len(text)-rest/2:]
}

// plainName tells at once of most names that nothing is wrong with them.
func plainName(name string) bool {
	if len(name) == 0 || len(name) > resourceapi.DeviceMaxIDLength || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		switch b := name[i]; {
		case b == '_', 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		default:
			return false
		}
	}
	return true
}

// qualifiedName checks the name of an attribute. As the API server does, it lets more
// than one slash pass.
func qualifiedName(at *field.Path, name string, c Conditions) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case name == "" && !c.Profile.Since(35):
		return field.ErrorList{field.Required(at, "must not be empty")}
	case !qualified:
		return identifier(at, name)
	case strings.Contains(id, "/"):
		return nil
	}
	errs := referredPart(at, domain, c, func() field.ErrorList { return referredDriver(at, domain, c) })
	return append(errs, referredPart(at, id, c, func() field.ErrorList { return identifier(at, id) })...)
}

func identifier(at *field.Path, id string) field.ErrorList {
	errs := tooLong(at, len(id), resourceapi.DeviceMaxIDLength)
	return append(errs, allOf(at, id, content.IsCIdentifier(id))...)
}
