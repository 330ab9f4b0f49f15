package parameters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/parameters"
)

func library(t testing.TB) *parameters.Library {
	t.Helper()
	library, err := parameters.Default()
	if err != nil {
		t.Fatal(err)
	}
	return library.Clone()
}

// TestCheck: what is said, word by word, of each way to be wrong.
func TestCheck(t *testing.T) {
	const head = `{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", `
	for _, test := range []struct{ name, driver, parameters, want string }{
		{"right", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS"}}`, ""},
		{"null is absent", "gpu.nvidia.com", head + `"sharing": null}`, ""},
		{"an unknown driver", "gpu.nvidia.org", `{"a": 1}`, ""},
		{"a list", "gpu.nvidia.com", `[]`, "unreadable: parameters: Invalid value: must be a JSON object: the driver reads no other parameters"},
		{"no JSON", "gpu.nvidia.com", `{`, "unreadable: parameters: Invalid value: cannot be read: unexpected end of JSON input"},
		{"too deep", "gpu.nvidia.com", strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001), "unreadable: parameters: Invalid value: cannot be read: invalid character '{' exceeded max depth"},
		{"a number that takes long", "gpu.nvidia.com", head + `"sharing": 1e-999999}`,
			`unreadable: parameters.sharing: Invalid value: "1e-999999": cannot be read: must have an exponent between -999 and 999`},
		{"a long number", "gpu.nvidia.com", head + `"sharing": 5, "x": 0.` + strings.Repeat("0", 100) + `1}`,
			"field: parameters.x: Invalid value: unknown field; known are apiVersion, kind, sharing\nvalue: parameters.sharing: Invalid value: 5: must be object, not number"},
		{"a longer number", "gpu.nvidia.com", head + `"x": [0, 0.` + strings.Repeat("0", 2000) + `1]}`,
			`unreadable: parameters.x[1]: Invalid value: "0.00000000000000000000000000000000000000": cannot be read: must have at most 1024 digits`},
		{"a key twice and no kind", "gpu.nvidia.com", `{"apiVersion": "resource.nvidia.com/v1beta1", "apiVersion": "v1"}`,
			"value: parameters.apiVersion: Duplicate value: \"apiVersion\"\nvalue: parameters.kind: Required value: the driver reads parameters by their apiVersion and kind"},
		{"a quantity that takes long", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1e4194967296"}}}`,
			`value: parameters.sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "1e4194967296": must be a quantity, such as 10Gi`},
		{"the same with an escape", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1\u0065-99999999"}}}`,
			`value: parameters.sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: Invalid value: "1e-99999999": must be a quantity, such as 10Gi`},
		{"a word of several", "gpu.nvidia.com", head + `"sharing": {"strategy": "mps"}}`,
			`choice: parameters.sharing.strategy: Unsupported value: "mps": supported values: "TimeSlicing", "MPS"`},
		{"a choice of another type", "gpu.nvidia.com", head + `"sharing": {"strategy": 1}}`,
			`value: parameters.sharing.strategy: Unsupported value: 1: supported values: "TimeSlicing", "MPS"`},
		{"a number of several", "dra.net", `{"interface": {"arpIgnore": 4}}`,
			`choice: parameters.interface.arpIgnore: Unsupported value: 4: supported values: "0", "1", "2", "3", "8"`},
		{"a string where one of several numbers is wanted", "dra.net", `{"interface": {"arpIgnore": "1"}}`,
			`value: parameters.interface.arpIgnore: Invalid value: "1": must be integer, not string`},
		{"a missing one", "gpu.nvidia.com", head + `"sharing": {}}`,
			`value: parameters.sharing.strategy: Required value: the driver needs it: TimeSlicing, MPS`},
		{"of two settings one", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "timeSlicingConfig": {"interval": "Long"}}}`,
			`value: parameters.sharing.timeSlicingConfig: Invalid value: must not be set with the strategy MPS`},
		{"a key twice", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "strategy": "MPS"}}`,
			`value: parameters.sharing.strategy: Duplicate value: "strategy"`},
		{"a wrong type", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": "50"}}}`,
			`value: parameters.sharing.mpsConfig.defaultActiveThreadPercentage: Invalid value: "50": must be integer, not string`},
		{"a format", "dra.net", `{"interface": {"addresses": ["10.0.0.1/24", "10.0.0.2"]}}`,
			`value: parameters.interface.addresses[1]: Invalid value: "10.0.0.2": must be an IP address with the length of its prefix, such as 10.0.0.1/24`},
		{"a key in brackets", "dra.net", `{"ethtool": {"features": {"tcp-segmentation-offload": "off"}}}`,
			`value: parameters.ethtool.features[tcp-segmentation-offload]: Invalid value: "off": must be boolean, not string`},
		{"a field", "gpu.nvidia.com", head + `"sharing": {"strategy": "MPS", "replicas": 4}}`,
			`field: parameters.sharing.replicas: Invalid value: unknown field; known are mpsConfig, strategy, timeSlicingConfig`},
		{"a kind", "compute-domain.nvidia.com", `{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"}`,
			`kind: parameters: Unsupported value: "resource.nvidia.com/v1beta1, ComputeDomain": supported values: "resource.nvidia.com/v1beta1, ComputeDomainChannelConfig", "resource.nvidia.com/v1beta1, ComputeDomainDaemonConfig"`},
		{"a kind where none is", "dra.net", `{"kind": "NetworkConfig", "apiVersion": "v1"}`,
			`kind: parameters: Unsupported value: "v1, NetworkConfig": supported values: "parameters without apiVersion and kind"`},
		{"no kind", "gpu.nvidia.com", `{"apiVersion": "resource.nvidia.com/v1beta1"}`,
			`value: parameters.kind: Required value: the driver reads parameters by their apiVersion and kind`},
		{"a kind that is no text", "gpu.nvidia.com", `{"apiVersion": "resource.nvidia.com/v1beta1", "kind": 1}`,
			`value: parameters.kind: Invalid value: 1: must be a string`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := check(library(t), test.driver, test.parameters); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func check(l *parameters.Library, driver, parameters string) string {
	found := l.Check(field.NewPath("parameters"), driver, []byte(parameters))
	var lines []string
	for _, group := range []struct {
		name string
		errs field.ErrorList
	}{{"unreadable", found.Unreadable}, {"kind", found.Kind}, {"field", found.Fields}, {"choice", found.Choices}, {"value", found.Values}} {
		for _, err := range group.errs {
			lines = append(lines, group.name+": "+err.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// TestManyErrors: one configuration does not fill the answer.
func TestManyErrors(t *testing.T) {
	var parameters []string
	for i := range 500 {
		parameters = append(parameters, fmt.Sprintf(`"variable%d": %d`, i, i))
	}
	got := check(library(t), "test-driver.cdi.k8s.io", "{"+strings.Join(parameters, ",")+"}")
	lines := strings.Split(got, "\n")
	if len(lines) != 17 || !strings.HasSuffix(lines[16], "and 484 more") {
		t.Errorf("%d lines: %s", len(lines), got)
	}
}

// TestLoad: what is wrong with a schema is said with its file, and the others are there.
func TestLoad(t *testing.T) {
	folder := fstest.MapFS{
		"a/good.schema.json":      {Data: []byte(`{"x-dra-driver": "a.example.com", "properties": {"apiVersion": {"const": "v1"}, "kind": {"const": "A"}}}`)},
		"a/other.schema.json":     {Data: []byte(`{"x-dra-driver": "a.example.com"}`)},
		"notes.txt":               {Data: []byte(`not read`)},
		"..2026/a.schema.json":    {Data: []byte(`{"x-dra-driver": "hidden.example.com"}`)},
		"no-json.schema.json":     {Data: []byte(`{`)},
		"list.schema.json":        {Data: []byte(`[]`)},
		"twice.schema.json":       {Data: []byte(`{"type": "object", "type": "object"}`)},
		"no-driver.schema.json":   {Data: []byte(`{"type": "object"}`)},
		"half.schema.json":        {Data: []byte(`{"x-dra-driver": "a", "properties": {"kind": {"const": "A"}}}`)},
		"no-schema.schema.json":   {Data: []byte(`{"x-dra-driver": "a", "type": "objekt"}`)},
		"bad-pattern.schema.json": {Data: []byte(`{"x-dra-driver": "a", "pattern": "("}`)},
		"elsewhere.schema.json":   {Data: []byte(`{"x-dra-driver": "a", "$ref": "https://example.com/schema"}`)},
		"file.schema.json":        {Data: []byte(`{"x-dra-driver": "a", "$ref": "file:///etc/passwd"}`)},
	}
	l := &parameters.Library{}
	err := l.Load(folder)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"no-json.schema.json: unexpected end of JSON input",
		"list.schema.json: a schema is a JSON object",
		"twice.schema.json: duplicate key type",
		"no-driver.schema.json: x-dra-driver is missing",
		"half.schema.json: properties.apiVersion.const and properties.kind.const go together",
		"no-schema.schema.json: the schema is not valid",
		"bad-pattern.schema.json: the schema is not valid",
		"elsewhere.schema.json: the schema is not valid",
		"file:///etc/passwd: schemas are not loaded from elsewhere; put what is referred to below $defs",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if got := l.Drivers(); !slices.Equal(got, []string{"a.example.com"}) {
		t.Errorf("drivers %v", got)
	}
	if got := l.Kinds("a.example.com"); !slices.Equal(got, []string{"parameters without apiVersion and kind", "v1, A"}) {
		t.Errorf("kinds %v", got)
	}
}

// TestOwnSchema: a site's schema replaces the one that comes along, and only in its own
// copy. A wrong key by propertyNames is said of the whole, since its place is not known.
func TestOwnSchema(t *testing.T) {
	own := library(t)
	err := own.Add([]byte(`{"x-dra-driver": "dra.net", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1,
		"properties": {"size": {"multipleOf": 4}, "mode": {"enum": ["fast", "safe"]}, "list": {"uniqueItems": true, "contains": {"const": 1}}, "either": {"anyOf": [{"type": "string"}, {"const": 1}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for parameters, want := range map[string]string{
		`{"mtu": 9000}`:     "",
		`{}`:                "value: parameters: Invalid value: minProperties: got 0, want 1",
		`{"MTU": 1}`:        `value: parameters: Invalid value: invalid propertyName 'MTU'`,
		`{"mode": "quick"}`: `value: parameters.mode: Unsupported value: "quick": supported values: "fast", "safe"`,
		`{"size": 5}`:       "value: parameters.size: Invalid value: 5: multipleOf: got 5, want 4",
		`{"list": [2]}`:     "value: parameters.list: Invalid value: no items match contains schema",
		`{"either": 2}`:     "value: parameters.either: Invalid value: 2: matches none of the allowed forms",
		`{"either": "two"}`: "",
	} {
		if got := check(own, "dra.net", parameters); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", parameters, got, want)
		}
	}
	if got := check(library(t), "dra.net", `{"mtu": 9000}`); got == "" {
		t.Error("the schema of the default library is replaced, too")
	}
}

// TestUnknown: a site that states it is denied what a schema does not know, of that driver alone.
func TestUnknown(t *testing.T) {
	site := v1alpha1.StewardConfiguration{OpaqueParameters: v1alpha1.OpaqueParameters{Drivers: map[string]v1alpha1.UnknownParameters{
		"dra.net": {UnknownFields: v1alpha1.UnknownDeny}, "gpu.nvidia.com": {UnknownValues: v1alpha1.UnknownDeny}}}}
	library, err := parameters.Site(site)
	if err != nil {
		t.Fatal(err)
	}
	const nvidia = `{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "Exclusive"}, "x": 1}`
	for _, test := range [][3]string{
		{"dra.net", `{"interface": {"arpIgnore": 9, "x": 1}}`, "choice: parameters.interface.arpIgnore: Unsupported value: 9: supported values: \"0\", \"1\", \"2\", \"3\", \"8\"\nvalue: parameters.interface.x: Invalid value: unknown field"},
		{"gpu.nvidia.com", nvidia, "field: parameters.x: Invalid value: unknown field; known are apiVersion, kind, sharing\nvalue: parameters.sharing.strategy: Unsupported value: \"Exclusive\": supported values: \"TimeSlicing\", \"MPS\""},
		{"gpu.nvidia.com", `{"apiVersion": "resource.nvidia.com/v2", "kind": "GpuConfig"}`, "value: parameters: Unsupported value"},
		{"gpu.example.com", `{"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "x": 1}`, "field: parameters.x: Invalid value: unknown field; known are apiVersion, kind, sharing"},
	} {
		if got := check(library, test[0], test[1]); !strings.HasPrefix(got, test[2]) {
			t.Errorf("%s %s\ngot  %s\nwant %s", test[0], test[1], got, test[2])
		}
	}
	site.OpaqueParameters.Drivers = map[string]v1alpha1.UnknownParameters{"dra.met": {}, "dra.net": {UnknownFields: "deny"}}
	if _, err := parameters.Site(site); err == nil || !strings.Contains(err.Error(), "opaqueParameters.drivers[dra.met]") || !strings.Contains(err.Error(), "opaqueParameters.drivers[dra.net].unknownFields: Unsupported value: \"deny\"") {
		t.Errorf("%v", err)
	}
}

// TestZeroLibrary: it knows nothing and says nothing.
func TestZeroLibrary(t *testing.T) {
	l := &parameters.Library{}
	if got := check(l, "gpu.nvidia.com", `{}`); got != "" || len(l.Drivers()) != 0 || l.KnowsDriver("gpu.nvidia.com") {
		t.Errorf("%q, %v", got, l.Drivers())
	}
}

// FuzzCheck gives any bytes to every driver. Nothing may panic, the answer is the same
// twice, has a bound, and every place lies in the parameters.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[[", `{"a": {"a": {"a": 1}}}`, `{"a":1,"a":[]}`, `{"": {"": null}}`, "\xff", strings.Repeat(`{"a":`, 20000),
		`{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": 1e400}}}`,
		`{"interface": {"name": "..", "vrf": {"table": 253}, "arpIgnore": 1e2}, "rules": [{}], "routes": [{"scope": 253}]}`,
	} {
		f.Add([]byte(seed))
	}
	l := library(f)
	f.Fuzz(func(t *testing.T, parameters []byte) {
		for _, driver := range l.Drivers() {
			first, second := check(l, driver, string(parameters)), check(l, driver, string(parameters))
			if first != second {
				t.Errorf("%s: first\n%s\nthen\n%s", driver, first, second)
			}
			found := l.Check(field.NewPath("parameters"), driver, parameters)
			all := slices.Concat(found.Unreadable, found.Kind, found.Fields, found.Choices, found.Values)
			if len(all) > 3*17+1 {
				t.Errorf("%s: %d errors", driver, len(all))
			}
			for _, err := range all {
				if !strings.HasPrefix(err.Field, "parameters") {
					t.Errorf("%s: %v", driver, err)
				}
			}
		}
	})
}
