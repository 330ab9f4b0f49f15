package manifest

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// jsonTree builds the tree of positions of valid JSON text. Scalars have no
// value in it but strings.
func (s *source) jsonTree() *yaml.Node {
	b := jsonBuilder{source: s, decoder: json.NewDecoder(bytes.NewReader(s.text))}
	b.decoder.UseNumber()
	return b.value()
}

type jsonBuilder struct {
	*source
	decoder *json.Decoder
}

// value reads one value; nil at the end of an object or list, or of the text.
func (b *jsonBuilder) value() *yaml.Node {
	start := int(b.decoder.InputOffset())
	token, err := b.decoder.Token()
	if err != nil {
		return nil
	}
	for start < len(b.text) && bytes.IndexByte([]byte(" \t\r\n,:"), b.text[start]) >= 0 {
		start++
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle}
	node.Line, node.Column = b.at(start)
	switch token := token.(type) {
	case string:
		node.Value = token
	case json.Delim:
		switch token {
		case '{':
			node.Kind = yaml.MappingNode
		case '[':
			node.Kind = yaml.SequenceNode
		default:
			return nil
		}
		for child := b.value(); child != nil; child = b.value() {
			node.Content = append(node.Content, child)
		}
	}
	return node
}
