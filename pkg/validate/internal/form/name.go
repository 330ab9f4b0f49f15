package form

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// KeysOf returns the keys of the items of values that are asked for, sorted. It costs
// nothing where there are none.
func KeysOf[K ~string, V any](values map[K]V, asked func(K, V) bool) (keys []K) {
	for name, value := range values {
		if asked(name, value) {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// Key is the path of an item of a map of attributes or capacities. The API server
// leaves out the middle of a key that is too long.
func Key(list *field.Path, name string) *field.Path {
	return list.Key(Shorten(name, resourceapi.DeviceMaxDomainLength+1+resourceapi.DeviceMaxIDLength))
}

func Shorten(text string, limit int) string {
	const gap = "..."
	if len(text) <= limit {
		return text
	}
	rest := limit - len(gap)
	return text[:(rest+1)/2] + gap + text[len(text)-rest/2:]
}

// PlainName is a fast check that accepts most valid names.
func PlainName(name string) bool {
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

// QualifiedName checks the name of an attribute. As the API server does, it lets more
// than one slash pass.
func QualifiedName(at *field.Path, name string, server walk.Server) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case name == "" && !server.Since(35):
		return field.ErrorList{field.Required(at, "must not be empty")}
	case !qualified:
		return Identifier(at, name)
	case strings.Contains(id, "/"):
		return nil
	}
	errs := NamePart(at, domain, server, func() field.ErrorList { return Driver(at, domain, server) })
	return append(errs, NamePart(at, id, server, func() field.ErrorList { return Identifier(at, id) })...)
}

func Identifier(at *field.Path, id string) field.ErrorList {
	errs := TooLongName(at, id, resourceapi.DeviceMaxIDLength)
	return append(errs, AllOf(at, id, content.IsCIdentifier(id))...)
}

// AllOf makes errors of messages about a value.
func AllOf(at *field.Path, value string, messages []string) (errs field.ErrorList) {
	for _, message := range messages {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

// referredDriver reports a text that cannot be the name of a driver.
func Driver(at *field.Path, name string, server walk.Server) (errs field.ErrorList) {
	if name == "" {
		errs = append(errs, field.Required(at, "name the driver, such as gpu.example.com"))
		if server.Since(35) {
			return errs
		}
	}
	errs = append(errs, TooLongName(at, name, resourceapi.DriverNameMaxLength)...)
	return append(errs, AllOf(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// referredPool reports a text that cannot be the name of a pool.
func Pool(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "name the pool of the device")}
	}
	errs = TooLongName(at, name, resourceapi.PoolNameMaxLength)
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, AllOf(at, part, validation.IsDNS1123Subdomain(part))...)
	}
	return errs
}

// referredPart reports an empty part of a name, or what check finds.
func NamePart(at *field.Path, part string, server walk.Server, check func() field.ErrorList) field.ErrorList {
	switch {
	case part != "":
		return check()
	case server.Since(35):
		return field.ErrorList{field.Invalid(at, part, "neither the domain nor the name may be empty")}
	default:
		return field.ErrorList{field.Required(at, "neither the domain nor the name may be empty")}
	}
}

// Label reports a text that is no DNS label.
func Label(at *field.Path, text string) field.ErrorList {
	return AllOf(at, text, validation.IsDNS1123Label(text))
}

// NamesWhere returns the names in values for which is holds, sorted. Only those are
// sorted: a full slice has 4096 names, and almost never a wrong one.
func NamesWhere[V any](values map[resourceapi.QualifiedName]V, is func(resourceapi.QualifiedName) bool) []resourceapi.QualifiedName {
	return KeysOf(values, func(name resourceapi.QualifiedName, _ V) bool { return is(name) })
}
