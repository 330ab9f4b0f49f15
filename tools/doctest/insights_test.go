package doctest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const insights = ".github/security-insights.yml"

// TestSecurityInsights: the file fits the required fields of the specification, its links lead to
// files of this tree, its contact is that of SECURITY.md, and it names the group of
// maintainers, not people.
func TestSecurityInsights(t *testing.T) {
	text := content(t, insights)
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := insightsSchema(t).Validate(object); err != nil {
		t.Error(err)
	}
	const source = "https://github.com/dra-steward/dra-steward/blob/main/"
	for _, link := range regexp.MustCompile(`https?://\S+`).FindAllString(text, -1) {
		file, ours := strings.CutPrefix(link, source)
		if _, err := os.Stat(filepath.Join(root, file)); ours && err != nil {
			t.Error(err)
		} else if !ours && link+"/blob/main/" != source {
			t.Errorf("%s leads elsewhere", link)
		}
	}
	if contact := regexp.MustCompile(`\S+@\S+`).FindString(text); contact == "" || !strings.Contains(content(t, "SECURITY.md"), "**"+contact+"**") {
		t.Errorf("%s is not the contact of SECURITY.md", contact)
	}
	for _, file := range []string{insights, "SECURITY.md"} {
		if n := strings.Count(content(t, file), "@example.invalid"); n > 1 {
			t.Errorf("%s has @example.invalid, which the release workflow looks for, %d times: it must be gone once the address is set", file, n)
		}
	}
	maintainers := content(t, "MAINTAINERS.md")
	for _, name := range regexp.MustCompile(`name: (\S+)\n\s+(?:primary|email)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(maintainers, "`"+name[1]+"`") {
			t.Errorf("MAINTAINERS.md does not name %s", name[1])
		}
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func insightsSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const name = "testdata/security-insights.schema.json"
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
