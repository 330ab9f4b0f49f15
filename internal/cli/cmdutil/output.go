package cmdutil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/text/printable"
	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

const jsonPathPrefix = "jsonpath="

// OutputFormats are the formats of a command: its own, and those of kubectl for any value.
func OutputFormats(own ...string) []string {
	return append(own, "json", "yaml", "jsonpath=TEMPLATE", "custom-columns=HEADER:PATH")
}

// CheckOutput refuses a value of --output that is neither one of the command's own formats
// nor one of kubectl's.
func CheckOutput(format string, own ...string) error {
	if template, is := strings.CutPrefix(format, jsonPathPrefix); is {
		_, err := parseJSONPath(template)
		return err
	}
	if _, is, err := parseColumns(format); is {
		return err
	}
	if format != "json" && format != "yaml" && !slices.Contains(own, format) {
		return fmt.Errorf("--output %q: must be one of %s", format, strings.Join(OutputFormats(own...), ", "))
	}
	return nil
}

// Print writes a value as json, yaml, jsonpath=TEMPLATE or custom-columns=HEADER:PATH.
func Print(out io.Writer, format string, value any) error {
	return PrintTable(out, format, value, true)
}

// PrintTable is Print for a list; headers are the names of its columns.
func PrintTable(out io.Writer, format string, value any, headers bool) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	data, err := generic(value)
	if err != nil {
		return err
	}
	if format == "yaml" {
		return printYAML(out, value, data)
	}
	data = escaped(data)
	if columns, is, err := parseColumns(format); err != nil {
		return err
	} else if is {
		return printColumns(out, columns, headers, data)
	}
	path, err := parseJSONPath(strings.TrimPrefix(format, jsonPathPrefix))
	if err != nil {
		return err
	}
	var result bytes.Buffer
	if err := path.Execute(&result, data); err != nil {
		return fmt.Errorf("--output %s: %w", format, err)
	}
	_, err = result.WriteTo(out)
	return err
}

// printYAML quotes texts that have a line of their own that a terminal or a CI system obeys.
func printYAML(out io.Writer, value, data any) error {
	beyond := regexp.MustCompile(`[\x{10000}-\x{10FFFF}]`) // in YAML, these have no escape of two halves as in JSON
	var page bytes.Buffer
	text, err := yaml.Marshal(value) // which fails for some control characters
	if err == nil {
		err = printable.Page(&page, string(text))
	}
	if err != nil || !bytes.Equal(page.Bytes(), text) {
		var node yamlv3.Node
		if err := node.Encode(data); err != nil {
			return err
		}
		quote(&node)
		if text, err = yamlv3.Marshal(&node); err != nil {
			return err
		}
		text = beyond.ReplaceAllFunc(text, func(c []byte) []byte { return fmt.Appendf(nil, `\U%08x`, []rune(string(c))[0]) })
	}
	_, err = out.Write(text)
	return err
}

func quote(n *yamlv3.Node) {
	if n.Tag == "!!str" {
		n.Style = yamlv3.DoubleQuotedStyle
	}
	for _, part := range n.Content {
		quote(part)
	}
}

// escaped is data whose texts have no line feeds and nothing that a terminal obeys.
func escaped(data any) any {
	switch typed := data.(type) {
	case string:
		return printable.Line(typed)
	case []any:
		for i := range typed {
			typed[i] = escaped(typed[i])
		}
	case map[string]any:
		for key := range typed {
			typed[key] = escaped(typed[key])
		}
	}
	return data
}

// generic is a value as JSON has it, with whole numbers as such.
func generic(value any) (data any, _ error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(text, &data)
	return data, err
}

// parseJSONPath reads a template as kubectl does: the braces around a single path are
// optional.
func parseJSONPath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, fmt.Errorf("--output %s%s: %w", jsonPathPrefix, template, err)
	}
	return path, nil
}
