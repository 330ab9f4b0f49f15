package helmchart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
)

// maxValues bounds a file with values.
const maxValues = 16 << 20

// values merges the files and assignments.
func (o Options) values() (map[string]any, error) {
	all := map[string]any{}
	for _, name := range o.Values {
		values, err := valuesFile(name)
		if err != nil {
			return nil, fmt.Errorf("values %s: %w", name, err)
		}
		all = loader.MergeMaps(all, values)
	}
	for _, assignment := range o.Set {
		if err := strvals.ParseInto(assignment, all); err != nil {
			return nil, fmt.Errorf("--set %s: %w", assignment, err)
		}
	}
	return all, nil
}

func valuesFile(name string) (map[string]any, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxValues+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxValues {
		return nil, fmt.Errorf("is larger than %d bytes", maxValues)
	}
	return loader.LoadValues(bytes.NewReader(data))
}

// capabilities are what templates see of the cluster.
func (o Options) capabilities() (*common.Capabilities, error) {
	c := common.DefaultCapabilities.Copy()
	if o.Kubernetes != "" {
		version, err := common.ParseKubeVersion(o.Kubernetes)
		if err != nil {
			return nil, fmt.Errorf("kubernetes version %q: %w", o.Kubernetes, err)
		}
		c.KubeVersion = *version
	}
	if o.Served == nil {
		return c, nil
	}
	var served common.VersionSet
	for _, version := range c.APIVersions {
		if o.Served(version) {
			served = append(served, version)
		}
	}
	c.APIVersions = served
	return c, nil
}

// checkValues compares the values with the schemas of the chart and its subcharts. What a
// schema takes from an address is not fetched, and allows everything.
func checkValues(c *chart.Chart, values common.Values) error {
	if len(c.Schema) > 0 {
		if err := checkSchema(c.Schema, values); err != nil {
			return fmt.Errorf("the values do not meet values.schema.json of chart %s: %w", c.Name(), err)
		}
	}
	for _, sub := range c.Dependencies() {
		if own, err := values.Table(sub.Name()); err == nil {
			if err := checkValues(sub, own); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSchema(data []byte, values common.Values) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	const name = "file:///values.schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(anything{})
	if err := compiler.AddResource(name, document); err != nil {
		return err
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return err
	}
	if err := schema.Validate(values.AsMap()); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "jsonschema validation failed with '"+name+"#'\n"))
	}
	return nil
}

// anything is the schema at every address.
type anything struct{}

func (anything) Load(string) (any, error) { return true, nil }
