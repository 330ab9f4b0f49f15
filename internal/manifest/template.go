package manifest

import (
	"bytes"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Template is text of a template that was not rendered.
type Template struct {
	// Line and Column are those of the key or item whose value it is in, or of the key that
	// it is in; as [Document.Position] returns them.
	Line, Column int
	// Message names the text and how to render it.
	Message string
	// Certain is true for text that is of no use in an object. Variables also occur in
	// scripts and in the parameters of drivers.
	Certain bool
}

// actions are what Helm replaces, variables what kustomize and Flux replace.
var (
	actions   = regexp.MustCompile(`\{\{-?[^{}\n]+\}\}`)
	variables = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_.-]*\)|\$\{[A-Za-z_][^{}\n]*\}`)
)

// templateIn finds the text of a template.
func templateIn(text string) (t Template, ok bool) {
	if found := actions.FindString(text); found != "" {
		return Template{Certain: true, Message: fmt.Sprintf("the template text %.60q is not rendered: run 'dra-steward lint --helm CHART', or 'helm template CHART | dra-steward lint -'", found)}, true
	}
	if found := variables.FindString(text); found != "" {
		return Template{Message: fmt.Sprintf("the variable %.60q is not replaced: run 'kustomize build FOLDER | dra-steward lint -', or replace it first", found)}, true
	}
	return t, false
}

// Templates returns where the document has text of a template outside its annotations.
func (d *Document) Templates() (found []Template) {
	if !bytes.Contains(d.Raw, []byte("{{")) && !bytes.Contains(d.Raw, []byte("$(")) && !bytes.Contains(d.Raw, []byte("${")) {
		return nil
	}
	return templatesIn(found, d.root())
}

func templatesIn(found []Template, node *yaml.Node) []Template {
	add := func(at, text *yaml.Node) {
		if t, ok := templateIn(text.Value); ok && text.Kind == yaml.ScalarNode {
			t.Line, t.Column = at.Line, at.Column
			found = append(found, t)
		}
	}
	if node == nil {
		return found
	}
	for i, child := range node.Content {
		at := child
		if node.Kind == yaml.MappingNode {
			at = node.Content[i-i%2]
			if i%2 == 1 && at.Value == "annotations" {
				continue
			}
		}
		add(at, child)
		found = templatesIn(found, child)
	}
	return found
}

// unrendered explains an error of the YAML parser by the template that the text is.
func (s *source) unrendered(failure *Error) *Error {
	at := 0
	for line := range bytes.Lines(s.text) {
		place := actions.FindIndex(line)
		if place != nil && hasContent(line) {
			t, _ := templateIn(string(line))
			row, column := s.at(at + place[0])
			return &Error{Line: row, Column: column, Message: t.Message, Err: failure.Err, Template: true}
		}
		at += len(line)
	}
	return failure
}
