package cmdutil

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/internal/text/printable"
	"sigs.k8s.io/yaml"
)

// TestColumns: a row for each value of a list, as kubectl prints it; whole numbers stay whole.
func TestColumns(t *testing.T) {
	devices := []map[string]any{
		{"device": "gpu-0", "memory": 85899345920, "claims": []map[string]any{{"name": "a"}, {"name": "b"}}},
		{"device": "gpu-1", "text": "two\nlines"},
	}
	const format = "custom-columns=DEVICE:.device,MEMORY:{.memory},CLAIMS:claims[*].name,TEXT:.text"
	var out bytes.Buffer
	if err := CheckOutput(format); err != nil {
		t.Fatal(err)
	}
	if err := Print(&out, format, devices); err != nil {
		t.Fatal(err)
	}
	want := "DEVICE   MEMORY        CLAIMS   TEXT\n" +
		"gpu-0    85899345920   a,b      <none>\n" +
		"gpu-1    <none>        <none>   two\\u000alines\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
	out.Reset()
	if err := PrintTable(&out, "custom-columns=D:.device", map[string]any{"items": devices}, false); err != nil || out.String() != "gpu-0\ngpu-1\n" {
		t.Errorf("%q, %v", &out, err)
	}
	for format, want := range map[string]string{
		"custom-columns=":            `column "" must be HEADER:PATH`,
		"custom-columns=A":           `column "A" must be HEADER:PATH`,
		"custom-columns=A:.a[":       "column A: ",
		"custom-columns-file=a":      "must be one of",
		"go-template={{.metadata}}":  "must be one of",
		"custom-columns=A:.a,B:":     `column "B:" must be HEADER:PATH`,
		"jsonpath={.items[*].device": "jsonpath",
	} {
		if err := CheckOutput(format, "text"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// TestJSONPathNumbers: a whole number is not written with an exponent.
func TestJSONPathNumbers(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, "jsonpath={.memory}", map[string]int64{"memory": 85899345920}); err != nil || out.String() != "85899345920" {
		t.Errorf("%q, %v", &out, err)
	}
}

// TestForgedLines: no format has a line that a text began.
func TestForgedLines(t *testing.T) {
	const text = "a\n::error::forged\t\u2028\u200b\x00\u009b\U000e0041"
	value := map[string]any{"name": text, text: []any{text, "b"}}
	for _, format := range []string{"json", "yaml", "jsonpath={.name}", "custom-columns=NAME:.name"} {
		var out strings.Builder
		if err := Print(&out, format, value); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") {
				t.Errorf("%s: %q", format, line)
			}
		}
		if !strings.Contains(out.String(), `a\n::error::forged`) && !strings.Contains(out.String(), `a\u000a::error::forged`) {
			t.Errorf("%s does not show the text: %s", format, &out)
		}
		var back any
		read := json.Unmarshal
		if format == "yaml" {
			read = func(text []byte, value any) error { return yaml.Unmarshal(text, value) }
		}
		if err := read([]byte(printable.Text(out.String())), &back); (format == "json" || format == "yaml") && (err != nil || !reflect.DeepEqual(back, any(value))) {
			t.Errorf("%s: %v, %v", format, back, err)
		}
	}
}
