// Package config reads the configuration file.
package config

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Load reads the file at path. An empty path is the empty configuration.
func Load(path string) (v1alpha1.StewardConfiguration, error) {
	if path == "" {
		return v1alpha1.StewardConfiguration{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return v1alpha1.StewardConfiguration{}, err
	}
	c, err := Parse(data)
	if err != nil {
		return v1alpha1.StewardConfiguration{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads the content of a configuration file. A field that does not exist is
// an error, since a limit with a typing mistake would not be in force.
func Parse(data []byte) (c v1alpha1.StewardConfiguration, err error) {
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return c, err
	}
	if c.APIVersion != v1alpha1.APIVersion || c.Kind != v1alpha1.ConfigurationKind {
		return c, fmt.Errorf("apiVersion %q, kind %q: must be %q and %q",
			c.APIVersion, c.Kind, v1alpha1.APIVersion, v1alpha1.ConfigurationKind)
	}
	return c, nil
}
