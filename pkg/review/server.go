package review

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// serverProfile is the API server that a site describes. Its Minor is 0 if the site
// leaves that to be asked for.
func serverProfile(s v1alpha1.Server) (apiserver.Profile, error) {
	at := field.NewPath("server")
	p := apiserver.Profile{Gates: map[apiserver.Gate]bool{}}
	for gate, on := range s.FeatureGates {
		p.Gates[apiserver.Gate(gate)] = on
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

// sitePublishers refuses drivers without users and groups that publish.
func sitePublishers(drivers map[string]v1alpha1.Driver) (map[string]validate.Publishers, error) {
	publishers := map[string]validate.Publishers{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		publishers[name] = validate.Publishers(drivers[name])
		if len(drivers[name].Users)+len(drivers[name].Groups) == 0 {
			errs = append(errs, field.Required(field.NewPath("drivers").Key(name), "name users or groups, or leave the driver out"))
		}
	}
	return publishers, errors.Join(errs...)
}
