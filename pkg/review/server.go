package review

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// serverProfile is the API server that a site describes. Its Minor is 0 if the site
// leaves that to be asked for.
func serverProfile(s v1alpha1.Server) (validate.Profile, error) {
	at := field.NewPath("server")
	p := validate.Profile{Gates: map[validate.Gate]bool{}}
	for gate, on := range s.FeatureGates {
		p.Gates[validate.Gate(gate)] = on
	}
	if s.KubernetesVersion != "" {
		v, err := version.ParseGeneric(s.KubernetesVersion)
		if err != nil || v.Major() != 1 {
			return p, field.Invalid(at.Child("kubernetesVersion"), s.KubernetesVersion, `must be a version such as "1.37"`)
		}
		p.Minor = int(v.Minor())
	}
	if err := p.Validate(); err != nil {
		return p, field.Invalid(at, s.KubernetesVersion, err.Error())
	}
	return p, nil
}

// siteDrivers refuses drivers of which nothing is said.
func siteDrivers(drivers map[string]v1alpha1.Driver) error {
	var errs []error
	for name, d := range drivers {
		at := field.NewPath("drivers").Key(name)
		if len(d.Users)+len(d.Groups)+len(d.Parameters) == 0 {
			errs = append(errs, field.Required(at, "name users, groups or parameters, or leave the driver out"))
		}
		for i, p := range d.Parameters {
			if p.APIVersion == "" || p.Kind == "" {
				errs = append(errs, field.Required(at.Child("parameters").Index(i), "name apiVersion and kind"))
			}
		}
	}
	return errors.Join(errs...)
}
