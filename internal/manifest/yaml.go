package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// toJSON converts YAML text as kubectl does; limit bounds what aliases may
// expand to.
func (s *source) toJSON(limit int) ([]byte, *Error) {
	if first := s.firstContent(); strings.HasPrefix(first, "%") {
		return nil, s.yamlError(fmt.Errorf("yaml: kubectl does not accept directives such as %q: remove them", first))
	}
	if mayHaveAliases(s.text) {
		if err := s.checkAliases(limit); err != nil {
			return nil, err
		}
	}
	raw, err := convert(s.text, sigsyaml.YAMLToJSONStrict)
	if err != nil {
		s.suspect = true
		raw, err = convert(s.text, sigsyaml.YAMLToJSON)
	}
	if err != nil {
		if bare := s.bareNull(); bare != nil {
			return nil, bare
		}
		return nil, s.yamlError(err)
	}
	if err := s.checkDepth(raw); err != nil {
		return nil, err
	}
	if err := s.checkTrailing(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// convert turns a panic of the YAML parser into an error.
func convert(text []byte, toJSON func([]byte) ([]byte, error)) (raw []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			raw, err = nil, fmt.Errorf("yaml: the parser failed: %v", r)
		}
	}()
	return toJSON(text)
}

// yamlTree parses the text for positions. It returns nil where this parser
// fails although [source.toJSON] may not.
func (s *source) yamlTree() *yaml.Node {
	document, err := parseNodes(s.text)
	if err != nil || len(document.Content) == 0 {
		return nil
	}
	s.place(document.Content[0], s.placer())
	resolveKeys(document.Content[0])
	return document.Content[0]
}

// parseNodes turns a panic of the YAML parser into an error.
func parseNodes(text []byte) (document yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the parser failed: %v", r)
		}
	}()
	err = yaml.Unmarshal(text, &document)
	return document, err
}

// placer returns the function that turns the line and column of the YAML
// parser into those of the file.
func (s *source) placer() func(line, column int) (int, int) {
	if !hasOddBreaks(s.text) {
		return func(line, column int) (int, int) {
			return s.line + min(line, len(s.breaks())) - 1, max(column, 1)
		}
	}
	starts := yamlLineStarts(s.text)
	return func(line, column int) (int, int) {
		start := starts[min(max(line, 1), len(starts))-1]
		return s.at(s.offset(s.characters(start) + max(column, 1) - 1))
	}
}

func (s *source) place(node *yaml.Node, placed func(line, column int) (int, int)) {
	node.Line, node.Column = placed(node.Line, node.Column)
	for _, child := range node.Content {
		s.place(child, placed)
	}
}

// resolveKeys puts in place of each key that YAML 1.1 may convert what it is in the JSON object, so
// that [keyText] converts it once and not with each path that is followed.
func resolveKeys(node *yaml.Node) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.Tag != "!!merge" && converts(follow(child)) {
			node.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: keyText(child), Line: child.Line, Column: child.Column}
		}
		resolveKeys(child)
	}
}

// firstContent returns the first line that is neither empty nor a comment.
func (s *source) firstContent() string {
	for line := range bytes.Lines(s.text) {
		if hasContent(line) {
			return strings.TrimRight(string(line), "\r\n")
		}
	}
	return ""
}

// checkTrailing finds text behind the document's only value, which the
// conversion ignores. A block mapping that begins in the first column always
// reaches to the end of the text.
func (s *source) checkTrailing(raw []byte) *Error {
	first := s.firstContent()
	if raw[0] == '{' && first != "" && !strings.ContainsAny(first[:1], " \t{[!&*?|>%@-") && !hasOddBreaks(s.text) {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(s.text))
	var node yaml.Node
	if decoder.Decode(&node) != nil {
		return nil
	}
	var next yaml.Node
	err := decoder.Decode(&next)
	switch {
	case err == io.EOF:
		return nil
	case err != nil:
		failure := s.yamlError(err)
		failure.Message += "; kubectl ignores the rest of the document"
		return failure
	}
	line, column := s.placer()(next.Line, next.Column)
	return &Error{Line: line, Column: column, Message: "a second value in the same document, which kubectl ignores: check the indentation, or put --- before it"}
}

// yamlLine is how the YAML parsers say where they failed.
var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n  )?(?:line (\d+): )?`)

// parserProblem recognises the messages for which the parsers report the line
// before that of the unexpected token.
var parserProblem = regexp.MustCompile(
	`did not find expected (<stream-start>|<document start>|node content|'-' indicator|key|',' or '\]'|',' or '\}')`)

// unknownAnchor is the message for an alias without an anchor.
var unknownAnchor = regexp.MustCompile(`unknown anchor '(.+)' referenced`)

// yamlError gives the parser's error a place; the parser knows the line, and
// the column is that of the first character on it.
func (s *source) yamlError(err error) *Error {
	message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	line := 1
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		message = message[len(match[0]):]
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
			if parserProblem.MatchString(message) {
				line++
			}
		}
	}
	if offset := s.errorOffset(message); offset >= 0 {
		line, column := s.at(offset)
		return &Error{Line: line, Column: column, Message: "not YAML: " + message, Err: err}
	}
	line, _ = s.placer()(line, 1)
	return &Error{Line: line, Column: errorColumn(s.lineAt(line), message), Message: "not YAML: " + message, Err: err}
}

// errorOffset returns where the text is wrong for messages that come without a
// line, -1 for others.
func (s *source) errorOffset(message string) int {
	if strings.Contains(message, "control characters") {
		return controlCharacter(s.text)
	}
	if match := unknownAnchor.FindStringSubmatch(message); match != nil {
		return bytes.Index(s.text, []byte("*"+match[1]))
	}
	return -1
}

// errorColumn returns the column at which the line most likely is wrong.
func errorColumn(line, message string) int {
	indented := strings.TrimLeft(line, " ")
	column := len(line) - len(indented) + 1
	switch {
	case strings.Contains(message, "mapping values are not allowed"):
		i := strings.Index(line, ":")
		if next := strings.Index(line[i+1:], ":"); next >= 0 {
			i += 1 + next
		}
		return len([]rune(line[:max(i, 0)])) + 1
	case strings.Contains(message, "cannot start any token"):
		if i := strings.IndexAny(line, "\t@`%"); i >= 0 {
			return len([]rune(line[:i])) + 1
		}
	}
	return min(column, max(len([]rune(line)), 1))
}

// controlCharacter returns the offset of the first character that YAML does not
// allow, -1 if there is none.
func controlCharacter(text []byte) int {
	return bytes.IndexFunc(text, func(r rune) bool {
		switch {
		case r == '\t', r == '\n', r == '\r', r == 0x85:
			return false
		}
		return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff
	})
}

// checkDepth refuses JSON that is nested too deeply; raw is what the source was
// converted to.
func (s *source) checkDepth(raw json.RawMessage) *Error {
	if depth(raw) <= maxDepth {
		return nil
	}
	line, column := s.line, s.column
	if node := tooDeep(s.root(), maxDepth); node != nil {
		line, column = node.Line, node.Column
	}
	return &Error{Line: line, Column: column, Message: fmt.Sprintf("nested more than %d levels deep", maxDepth)}
}

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
