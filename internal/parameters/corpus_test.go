package parameters_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
)

// configuration is one of the public manifests.
type configuration struct {
	from, driver, kind string
	parameters         []byte
}

// refused is what the documentation of dranet shows, and the driver refuses: neighbors have a destination, not an ipAddress.
const refused = "dranet/from-docs/site__content__docs__user__interface-configuration--block1.yaml#1.0"

// TestCorpus: every configuration of the public manifests that Kubernetes 1.37 accepts
// passes, and ten mutations of each, or more, do not, with the place of the mutation.
func TestCorpus(t *testing.T) {
	library := library(t)
	if err := library.Load(os.DirFS("../../examples/parameters")); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range configurations(t) {
		key := c.driver + string(c.parameters)
		if seen[key] {
			continue
		}
		seen[key] = true
		t.Run(c.from, func(t *testing.T) {
			if !library.KnowsDriver(c.driver) {
				t.Fatalf("no schema for %s", c.driver)
			}
			found := library.Check(root, c.driver, c.parameters)
			if c.from == refused {
				if len(found.Values) == 0 {
					t.Error("the driver refuses it, and it passes")
				}
				return
			}
			for _, err := range slices.Concat(found.Unreadable, found.Kind, found.Fields, found.Choices, found.Values) {
				t.Errorf("passes the API server, and the driver: %v", err)
			}
			mutate(t, library, c)
		})
	}
	if len(seen) < 28 {
		t.Errorf("only %d configurations", len(seen))
	}
}

var root = field.NewPath("parameters")

func mutate(t *testing.T, library *parameters.Library, c configuration) {
	mutations := mutations(t, c)
	applied := 0
	for _, m := range mutations {
		var object map[string]any
		if err := json.Unmarshal(c.parameters, &object); err != nil {
			t.Fatal(err)
		}
		if !m.apply(object) {
			continue
		}
		applied++
		mutated, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		found := library.Check(root, c.driver, mutated)
		var at []string
		for _, err := range slices.Concat(found.Unreadable, found.Kind, found.Fields, found.Choices, found.Values) {
			at = append(at, err.Field)
		}
		if !strings.Contains(strings.Join(at, "\n")+"\n", m.want+"\n") {
			t.Errorf("%s: errors at %q, want one at %s, of %s", m.name, at, m.want, mutated)
		}
	}
	if applied < 10 {
		t.Errorf("%d mutations, want ten", applied)
	}
}

// mutation changes one field.
type mutation struct {
	name, want string
	place      []string
	remove     bool
	value      any
}

// mutations reads those for a kind: a line each with a name, the place, the new value or
// - to remove it, and the place of the error if it is another.
func mutations(t *testing.T, c configuration) (all []mutation) {
	name := strings.TrimSuffix(c.driver+"_"+c.kind, "_")
	text, err := os.ReadFile(filepath.Join("testdata", "mutations", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		place, want := cells[1], "parameters."+cells[1]
		if len(cells) == 4 {
			want = strings.TrimSuffix("parameters."+cells[3], "..")
		}
		want = regexp.MustCompile(`\.([^.[]*-[^.[]*)`).ReplaceAllString(want, "[$1]")
		m := mutation{name: cells[0], want: want, remove: cells[2] == "-"}
		m.place = strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(place), ".")
		if !m.remove {
			if err := json.Unmarshal([]byte(cells[2]), &m.value); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		all = append(all, m)
	}
	return all
}

// apply reports whether there was something to change.
func (m mutation) apply(object map[string]any) bool {
	var parent any = object
	for _, key := range m.place[:len(m.place)-1] {
		switch in := parent.(type) {
		case map[string]any:
			parent = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				return false
			}
			parent = in[i]
		}
	}
	last := m.place[len(m.place)-1]
	switch in := parent.(type) {
	case map[string]any:
		if strings.HasPrefix(m.name, "partitions of") && in["timeSlicingConfig"] == nil || strings.HasPrefix(m.name, "time slices of p") && in["spacePartitioningConfig"] == nil {
			return false
		}
		if m.remove {
			_, had := in[last]
			delete(in, last)
			return had
		}
		in[last] = m.value
		return true
	case []any:
		i, err := strconv.Atoi(last)
		if err != nil || i >= len(in) {
			return false
		}
		in[i] = m.value
		return true
	}
	return false
}

// configurations are those of the claims, templates and classes in the public manifests
// that EXPECTATIONS.tsv calls valid.
func configurations(t *testing.T) (all []configuration) {
	folder := corpus.Folder(t)
	valid := expectations(t, folder)
	ours := map[string]int{}
	for document, err := range (manifest.Reader{}).Walk(folder) {
		if err != nil {
			continue
		}
		file, err := filepath.Rel(folder, document.File)
		if err != nil {
			t.Fatal(err)
		}
		if !document.Ours() {
			continue
		}
		ours[file]++ // rows count the documents of resource.k8s.io alone
		from := fmt.Sprintf("%s#%d", file, ours[file])
		if !valid[from] {
			continue
		}
		delete(valid, from)
		object, _ := manifest.Decode(document)
		for i, config := range configs(object) {
			if config.Opaque == nil {
				continue
			}
			var kind struct{ Kind string }
			if err := json.Unmarshal(config.Opaque.Parameters.Raw, &kind); err != nil {
				t.Fatal(err)
			}
			all = append(all, configuration{fmt.Sprintf("%s.%d", from, i), config.Opaque.Driver, kind.Kind, config.Opaque.Parameters.Raw})
		}
	}
	for from := range valid {
		t.Errorf("%s is valid and was not read", from)
	}
	return all
}

func configs(object any) (configs []resourceapi.DeviceConfiguration) {
	var claims []resourceapi.DeviceClaimConfiguration
	switch object := object.(type) {
	case *resourceapi.ResourceClaim:
		claims = object.Spec.Devices.Config
	case *resourceapi.ResourceClaimTemplate:
		claims = object.Spec.Spec.Devices.Config
	case *resourceapi.DeviceClass:
		for _, config := range object.Spec.Config {
			configs = append(configs, config.DeviceConfiguration)
		}
	}
	for _, config := range claims {
		configs = append(configs, config.DeviceConfiguration)
	}
	return configs
}

func expectations(t *testing.T, folder string) map[string]bool {
	file, err := os.Open(filepath.Join(folder, "EXPECTATIONS.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comma, reader.LazyQuotes = '\t', true
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	valid := map[string]bool{}
	for _, row := range rows {
		if row[5] == "valid" {
			valid[row[0]+"#"+row[1]] = true
		}
	}
	return valid
}
