package inputs

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

//go:embed found/*.yaml
var found embed.FS

// Found returns the writes that we and an API server once disagreed about, by the name
// of what was wrong. All feature gates are on unless a file says otherwise.
func Found() (cases []wire.Case, err error) {
	files, err := found.ReadDir("found")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := found.ReadFile(path.Join("found", file.Name()))
		if err != nil {
			return nil, err
		}
		var one struct {
			Why, Subresource string
			Gates            map[string]bool
			Object, Old      json.RawMessage
		}
		if err := yaml.UnmarshalStrict(text, &one); err != nil || one.Why == "" {
			return nil, fmt.Errorf("found/%s: it says %q why: %w", file.Name(), one.Why, err)
		}
		c := wire.Case{
			ID: "found/" + strings.TrimSuffix(file.Name(), ".yaml"), Op: wire.Create, Subresource: one.Subresource,
			Object: one.Object, Old: one.Old, Gates: map[string]bool{wire.AllDRA: true}, Admin: true, Full: true,
		}
		if one.Old != nil {
			c.Op = wire.Update
		}
		for gate, on := range one.Gates {
			c.Gates[gate] = on
		}
		cases = append(cases, c)
	}
	return cases, nil
}
