package cmdutil

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dra-steward/dra-steward/internal/text/printable"
	"k8s.io/client-go/util/jsonpath"
)

const columnsPrefix = "custom-columns="

// A column is one of -o custom-columns=HEADER:PATH.
type column struct {
	header string
	path   *jsonpath.JSONPath
}

// HasRows reports whether a format is a table: one of the command's own, or custom columns.
func HasRows(format string, own ...string) bool {
	return slices.Contains(own, format) || strings.HasPrefix(format, columnsPrefix)
}

// parseColumns reads the columns of a format; has is false if the format is another one.
func parseColumns(format string) (all []column, has bool, _ error) {
	text, has := strings.CutPrefix(format, columnsPrefix)
	if !has {
		return nil, false, nil
	}
	for _, part := range strings.Split(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return nil, true, fmt.Errorf("--output %s: column %q must be HEADER:PATH, such as DEVICE:.device", format, part)
		}
		parsed, err := parseJSONPath("{." + strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}"), ".") + "}")
		if err != nil {
			return nil, true, fmt.Errorf("--output %s: column %s: %w", format, header, errors.Unwrap(err))
		}
		all = append(all, column{header, parsed})
	}
	return all, true, nil
}

// printColumns writes a row for each value: those of a list, or a value alone.
func printColumns(out io.Writer, columns []column, headers bool, data any) error {
	table := printable.NewTable(out, 3)
	row := func(cell func(column) (string, error)) error {
		var cells []string
		for _, c := range columns {
			text, err := cell(c)
			if err != nil {
				return err
			}
			cells = append(cells, text)
		}
		_, err := printable.Printf(table, "%s\n", printable.Cells(cells))
		return err
	}
	if headers {
		if err := row(func(c column) (string, error) { return c.header, nil }); err != nil {
			return err
		}
	}
	for _, value := range rows(data) {
		if err := row(func(c column) (string, error) { return c.of(value) }); err != nil {
			return err
		}
	}
	return table.Flush()
}

// rows are the values of a list, of a Kubernetes list or of a value alone.
func rows(data any) []any {
	switch typed := data.(type) {
	case []any:
		return typed
	case map[string]any:
		if items, ok := typed["items"].([]any); ok {
			return items
		}
	}
	return []any{data}
}

// of is the cell of a value; as in kubectl, several results have commas between them.
func (c column) of(value any) (string, error) {
	results, err := c.path.FindResults(value)
	if err != nil {
		return "", fmt.Errorf("--output: column %s: %w", c.header, err)
	}
	var texts []string
	for _, result := range results {
		for _, one := range result {
			texts = append(texts, fmt.Sprint(one.Interface()))
		}
	}
	if len(texts) == 0 {
		return "<none>", nil
	}
	return strings.Join(texts, ","), nil
}
