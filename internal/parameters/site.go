package parameters

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Site returns the schemas of a site: those that come with dra-steward, those in
// its configuration, and those in folders; of two for one kind the later one counts.
func Site(c v1alpha1.StewardConfiguration, folders ...fs.FS) (*Library, error) {
	library, err := Default()
	if err != nil || len(c.OpaqueParameters.Schemas)+len(c.OpaqueParameters.Drivers)+len(folders) == 0 {
		return library, err
	}
	library = library.Clone()
	var errs []error
	for i, schema := range c.OpaqueParameters.Schemas {
		if err := library.Add(schema); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("opaqueParameters", "schemas").Index(i), field.OmitValueType{}, err.Error()))
		}
	}
	library.unknown = c.OpaqueParameters.Drivers
	for _, driver := range slices.Sorted(maps.Keys(library.unknown)) {
		at, of := field.NewPath("opaqueParameters", "drivers").Key(driver), library.unknown[driver]
		if !library.KnowsDriver(driver) {
			errs = append(errs, field.NotSupported(at, driver, library.Drivers()))
		}
		for name, value := range map[string]v1alpha1.Unknown{"unknownFields": of.UnknownFields, "unknownValues": of.UnknownValues} {
			if value != "" && value != v1alpha1.UnknownWarn && value != v1alpha1.UnknownDeny {
				errs = append(errs, field.NotSupported(at.Child(name), value, []v1alpha1.Unknown{v1alpha1.UnknownWarn, v1alpha1.UnknownDeny}))
			}
		}
	}
	for _, folder := range folders {
		errs = append(errs, library.Load(folder))
	}
	return library, errors.Join(errs...)
}
