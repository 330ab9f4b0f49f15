package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// begin is the line of the README after which everything is generated.
const begin = "<!-- What follows is generated from values.yaml: make generate. -->"

// readme returns the README with the values as they are now.
func readme(old string, root value, schema []byte) (string, error) {
	head, _, found := strings.Cut(old, begin)
	if !found {
		return "", fmt.Errorf("README.md has no line %q", begin)
	}
	var top object
	if err := json.Unmarshal(schema, &top); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(head + begin + "\n\n| value | type | default | what it is |\n| --- | --- | --- | --- |\n")
	err := root.rows(&out, top)
	return out.String(), err
}

// rows writes a row for every value; a group with a comment has one, too.
func (v value) rows(out *strings.Builder, schema object) error {
	for _, child := range v.children {
		of := schema["properties"].(object)[child.name()].(object)
		if child.children == nil {
			var initial any
			if err := child.node.Decode(&initial); err != nil {
				return err
			}
			text, err := json.Marshal(initial)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "| `%s` | %s | `%s` | %s |\n", child.path, typeOf(of), cell(string(text)), cell(child.doc))
		} else if child.doc != "" {
			fmt.Fprintf(out, "| **%s** | | | %s |\n", child.path, cell(child.doc))
		}
		if err := child.rows(out, of); err != nil {
			return err
		}
	}
	return nil
}

// typeOf says in a word or two what a value may be.
func typeOf(schema object) string {
	if enum, ok := schema["enum"].([]any); ok {
		var words []string
		for _, word := range enum {
			if word, ok := word.(string); ok && word != "" {
				words = append(words, word)
			}
		}
		return strings.Join(words, ", ")
	}
	word := ""
	switch of := schema["type"].(type) {
	case string:
		word = of
	case []any:
		word = fmt.Sprint(of[0])
	}
	if least, ok := schema["minimum"]; ok {
		word += fmt.Sprintf(" from %v", least)
	}
	if most, ok := schema["maximum"]; ok {
		word += fmt.Sprintf(" to %v", most)
	}
	return word
}

// cell is text inside a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}
