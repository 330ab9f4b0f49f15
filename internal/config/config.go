// Package config reads the configuration file.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
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

// Parse reads the content of a configuration file. What would be left out in silence
// is an error, since a limit with a typing mistake would not be in force: a field that
// does not exist or stands twice, a second document.
func Parse(data []byte) (c v1alpha1.StewardConfiguration, _ error) {
	if err := oneDocument(data); err != nil {
		return c, err
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return c, err
	}
	strict, err := json.UnmarshalStrict(text, &c)
	if err := errors.Join(append(strict, err)...); err != nil {
		return c, err
	}
	if c.APIVersion != v1alpha1.APIVersion || c.Kind != v1alpha1.ConfigurationKind {
		return c, fmt.Errorf("apiVersion %q, kind %q: must be %q and %q",
			c.APIVersion, c.Kind, v1alpha1.APIVersion, v1alpha1.ConfigurationKind)
	}
	return c, nil
}

func oneDocument(data []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(data))
	documents := 0
	for document := (yamlv3.Node{}); documents < 2 && decoder.Decode(&document) == nil; {
		documents++
	}
	if documents > 1 {
		return errors.New("more than one document; a configuration file is one document")
	}
	return nil
}
