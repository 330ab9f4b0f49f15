package parameters

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/parameters/schemaregexp"
	"github.com/dra-steward/dra-steward/policies/parameters"
)

// A Library is a set of schemas. The zero value has none and is ready for Add. Add must
// not be called while the library is in use; everything else is for any number of
// goroutines.
type Library struct {
	drivers map[string]map[id]*schema
	// unknown says, by driver, what happens to what the schemas do not know.
	unknown map[string]v1alpha1.UnknownParameters
}

// id is what parameters say of themselves; empty where a driver does without.
type id struct{ apiVersion, name string }

func (k id) String() string {
	if k == (id{}) {
		return "parameters without apiVersion and kind"
	}
	return k.apiVersion + ", " + k.name
}

type schema struct {
	document map[string]any
	compiled *jsonschema.Schema
	// included is true for a schema that comes with dra-steward.
	included bool
	// lenient is true where the driver reads its parameters with encoding/json.
	lenient bool
}

// Default returns the schemas that come with dra-steward, for the drivers that
// policies/parameters names. It is the same library every time: Clone it to Add to it.
func Default() (*Library, error) { return shipped() }

var shipped = sync.OnceValues(func() (*Library, error) {
	library := &Library{}
	err := library.Load(parameters.Schemas)
	for _, kinds := range library.drivers {
		for _, schema := range kinds {
			schema.included = true
		}
	}
	return library, err
})

// Clone returns a library of its own with the same schemas.
func (l *Library) Clone() *Library {
	drivers := make(map[string]map[id]*schema, len(l.drivers))
	for driver, kinds := range l.drivers {
		drivers[driver] = maps.Clone(kinds)
	}
	return &Library{drivers, maps.Clone(l.unknown)}
}

// Load adds every file of a folder, and of those below it that are not hidden, that ends in .schema.json.
// One error names all wrong files; the right ones are added.
func (l *Library) Load(folder fs.FS) error {
	var errs []error
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".schema.json") {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err == nil {
			err = l.Add(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// Add adds a schema, in place of one for the same driver and kind.
func (l *Library) Add(text []byte) error {
	decoded, duplicates, err := decode(nil, text)
	if err != nil {
		return err
	}
	if len(duplicates) > 0 {
		return fmt.Errorf("duplicate key %s", strings.Join(duplicates[0], "."))
	}
	document, is := decoded.(map[string]any)
	if !is {
		return errors.New("a schema is a JSON object")
	}
	driver, _ := document["x-dra-driver"].(string)
	if driver == "" {
		return errors.New("x-dra-driver is missing: name the driver that takes these parameters")
	}
	of := id{constant(document, "apiVersion"), constant(document, "kind")}
	if (of.apiVersion == "") != (of.name == "") {
		return errors.New("properties.apiVersion.const and properties.kind.const go together: write both, or neither for parameters without them")
	}
	compiled, err := compile(document)
	if err != nil {
		return err
	}
	if l.drivers == nil {
		l.drivers = map[string]map[id]*schema{}
	}
	if l.drivers[driver] == nil {
		l.drivers[driver] = map[id]*schema{}
	}
	lenient, _ := document["x-lenient"].(bool)
	l.drivers[driver][of] = &schema{document: document, compiled: compiled, lenient: lenient}
	return nil
}

// constant returns what a schema says that a field is.
func constant(document map[string]any, name string) string {
	properties, _ := document["properties"].(map[string]any)
	property, _ := properties[name].(map[string]any)
	value, _ := property["const"].(string)
	return value
}

// location is where a schema is said to be; it is not looked for there.
const location = "schema:///parameters"

func compile(document map[string]any) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nowhere{})
	compiler.UseRegexpEngine(schemaregexp.Compile)
	compiler.AssertFormat()
	for _, format := range formats {
		compiler.RegisterFormat(&format)
	}
	if err := compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid: %w", err)
	}
	return compiled, nil
}

// nowhere loads nothing: what a schema means must not depend on a network.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: schemas are not loaded from elsewhere; put what is referred to below $defs", url)
}

// Drivers returns the drivers that there are schemas for, in order.
func (l *Library) Drivers() []string { return slices.Sorted(maps.Keys(l.drivers)) }

// A Schema names the parameters that a schema is for.
type Schema struct {
	Driver, Kind string
	// Version is the release of the driver that the schema was made from.
	Version string
}

// Schemas returns what there are schemas for, in order.
func (l *Library) Schemas() (all []Schema) {
	for driver, kinds := range l.drivers {
		for of, schema := range kinds {
			version, _ := schema.document["x-driver-version"].(string)
			all = append(all, Schema{driver, of.String(), version})
		}
	}
	slices.SortFunc(all, func(a, b Schema) int {
		return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Kind, b.Kind))
	})
	return all
}

// Kinds returns the kinds of parameters of a driver that there are schemas for, in words,
// in order.
func (l *Library) Kinds(driver string) (kinds []string) {
	for k := range l.drivers[driver] {
		kinds = append(kinds, k.String())
	}
	slices.Sort(kinds)
	return kinds
}

// KnowsDriver reports whether there is a schema for a driver.
func (l *Library) KnowsDriver(driver string) bool { return len(l.drivers[driver]) > 0 }
