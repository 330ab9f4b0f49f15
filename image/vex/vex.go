// Package vex makes the OpenVEX document of a release from what govulncheck says.
package vex

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A statement is what Write reads of one; it keeps the rest (https://github.com/openvex/spec).
type statement struct {
	Vulnerability struct {
		Name string `json:"name"`
	} `json:"vulnerability"`
	Status string `json:"status"`
}

// Write writes the document of the module at a version into the file. govulncheck knows neither the product nor the
// author. Without statements it writes nothing: an OpenVEX document has at least one. It returns an error for a
// vulnerability that affects the module: a release of it is not made.
func Write(file string, govulncheck []byte, module, version, author string) (written bool, err error) {
	var document map[string]any
	var read struct {
		Statements []statement `json:"statements"`
	}
	for _, into := range []any{&document, &read} {
		if err := json.Unmarshal(govulncheck, into); err != nil {
			return false, fmt.Errorf("the output of govulncheck -format openvex: %w", err)
		}
	}
	if context, _ := document["@context"].(string); !strings.HasPrefix(context, "https://openvex.dev/ns/") {
		return false, fmt.Errorf("the output of govulncheck has the context %q: run it with -format openvex", context)
	}
	var affected []string
	for _, one := range read.Statements {
		if one.Status != "not_affected" && one.Status != "fixed" {
			affected = append(affected, one.Vulnerability.Name)
		}
	}
	if len(affected) > 0 {
		return false, fmt.Errorf("%s@%s is affected by %s: update the modules first", module, version, strings.Join(affected, ", "))
	}
	if len(read.Statements) == 0 {
		return false, nil
	}
	document["author"] = author
	product := "pkg:golang/" + module + "@" + version
	// govulncheck makes the identity from the statements alone: without the product, the documents of two programs
	// with the same modules have the same.
	document["@id"] = fmt.Sprint(document["@id"], ":", product)
	for _, one := range document["statements"].([]any) {
		fill(one, product)
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(file, append(text, '\n'), 0o644)
}

// fill sets the product of a statement, and keeps its subcomponents.
func fill(statement any, product string) {
	fields, _ := statement.(map[string]any)
	products, _ := fields["products"].([]any)
	for _, one := range products {
		if of, ok := one.(map[string]any); ok {
			of["@id"] = product
		}
	}
}
