// Package config reads the configuration file and turns it into the options of the
// packages that decide. A file is checked as a whole: every mistake is in the error.
package config

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// Load reads the file at path. An empty path is the empty configuration.
func Load(path string) (review.Reviewer, error) {
	if path == "" {
		return review.Reviewer{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return review.Reviewer{}, err
	}
	reviewer, err := Parse(data)
	if err != nil {
		return review.Reviewer{}, fmt.Errorf("%s: %w", path, err)
	}
	return reviewer, nil
}

// Parse reads a configuration file. A field that does not exist is an error, since
// a limit with a typing mistake would not be in force.
func Parse(data []byte) (review.Reviewer, error) {
	var c v1alpha1.StewardConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return review.Reviewer{}, err
	}
	reviewer := review.Reviewer{
		Limits:   validate.Limits(c.Limits),
		Defaults: mutate.Settings(c.Defaults),
	}
	var wrong error
	if c.APIVersion != v1alpha1.APIVersion || c.Kind != v1alpha1.ConfigurationKind {
		wrong = fmt.Errorf("apiVersion %q, kind %q: must be %q and %q",
			c.APIVersion, c.Kind, v1alpha1.APIVersion, v1alpha1.ConfigurationKind)
	}
	return reviewer, errors.Join(wrong, reviewer.Limits.Validate(), reviewer.Defaults.Validate())
}
