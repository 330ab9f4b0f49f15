package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	configKeys  = keysOf("driver", "apiVersion", "kind", "parameters", "driverKnown", "known", "problems", "paths")
	problemKeys = keysOf("path", "message")
)

// opaqueConfig is one opaque configuration with its place.
type opaqueConfig struct {
	*resourceapi.OpaqueDeviceConfiguration
	path string
}

func opaqueConfigs(object any) (all []opaqueConfig) {
	if class, is := object.(*resourceapi.DeviceClass); is {
		for i := range class.Spec.Config {
			all = append(all, opaqueConfig{class.Spec.Config[i].Opaque, "spec.config[" + itoa(i) + "].opaque"})
		}
	}
	if spec, base := specOf(object); spec != nil {
		for i := range spec.Devices.Config {
			all = append(all, opaqueConfig{spec.Devices.Config[i].Opaque, base + ".devices.config[" + itoa(i) + "].opaque"})
		}
	}
	return all
}

// configs are the distinct opaque configurations.
func (s *subject) configs() (terms []*ast.Term) {
	type id struct{ driver, parameters string }
	var order []opaqueConfig
	paths := map[id][]string{}
	for _, config := range opaqueConfigs(s.Object) {
		if config.OpaqueDeviceConfiguration == nil {
			continue
		}
		key := id{config.Driver, string(config.Parameters.Raw)}
		if paths[key] == nil {
			order = append(order, config)
		}
		paths[key] = append(paths[key], config.path)
	}
	for _, config := range order {
		terms = append(terms, s.config(config, paths[id{config.Driver, string(config.Parameters.Raw)}]))
	}
	return terms
}

func (s *subject) config(c opaqueConfig, paths []string) *ast.Term {
	schemas := s.Parameters
	var problems []*ast.Term
	driverKnown := schemas != nil && schemas.KnowsDriver(c.Driver)
	known := driverKnown
	if driverKnown {
		at := field.NewPath("parameters")
		unknown, fields, values := schemas.Check(at, c.Driver, c.Parameters.Raw)
		known = len(unknown) == 0
		for _, err := range append(fields, values...) {
			path := strings.TrimPrefix(strings.TrimPrefix(err.Field, "parameters"), ".")
			problems = append(problems, problemKeys.object(text(path), ast.StringTerm(err.ErrorBody())))
		}
	}
	parameters := s.parsed(c.path+".parameters", c.Parameters.Raw)
	return configKeys.object(text(c.Driver), stringField(parameters, "apiVersion"), stringField(parameters, "kind"), parameters,
		truth(driverKnown), truth(known), ast.ArrayTerm(problems...), texts(paths))
}

func stringField(object *ast.Term, name string) *ast.Term {
	if fields, is := object.Value.(ast.Object); is {
		if value := fields.Get(ast.StringTerm(name)); value != nil {
			if _, is := value.Value.(ast.String); is {
				return value
			}
		}
	}
	return text("")
}
