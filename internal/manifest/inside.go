package manifest

import (
	"sort"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxAligned bounds the bytes of a file that PositionIn looks at: several times those of
// the longest expression.
const maxAligned = 1 << 16

// PositionIn returns the place in the file of a character of the text that path names. line
// and column count lines and characters of the text from 1. ok is false if path names no
// text, or a text that the file writes with escapes that PositionIn does not follow.
//
// PositionIn may be called by several goroutines at once.
func (d *Document) PositionIn(path string, line, column int) (fileLine, fileColumn int, ok bool) {
	if d.root() == nil {
		return 0, 0, false
	}
	node, _, rest := d.find(path)
	node = follow(node)
	if rest != "" || node.Kind != yaml.ScalarNode || line < 1 || column < 1 {
		return 0, 0, false
	}
	text := []rune(node.Value)
	index := indexAt(text, line, column)
	start, ok := d.source.offsetOf(node)
	if index < 0 || !ok {
		return 0, 0, false
	}
	written := []rune(string(d.source.text[start:min(len(d.source.text), start+maxAligned)]))
	after, ok := align(written, text[:index], node.Style)
	for index < len(text) && !unicode.IsSpace(text[index]) && after < len(written) && unicode.IsSpace(written[after]) {
		after++
	}
	if !ok {
		return 0, 0, false
	}
	fileLine, fileColumn = d.source.at(start + len(string(written[:after])))
	return fileLine, fileColumn, true
}

// indexAt returns the index of the character at a line and column, or -1.
func indexAt(text []rune, line, column int) int {
	start := 0
	for ; line > 1; line-- {
		for start < len(text) && text[start] != '\n' {
			start++
		}
		if start++; start > len(text) {
			return -1
		}
	}
	if start+column-1 > len(text) {
		return -1
	}
	return start + column - 1
}

// offsetOf returns where the text of a scalar begins in the source.
func (s *source) offsetOf(node *yaml.Node) (offset int, ok bool) {
	starts, i, column := s.breaks(), node.Line-s.line, node.Column
	if i < 0 || i >= len(starts) {
		return 0, false
	}
	if i == 0 {
		column -= s.column - 1
	}
	block := node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if block {
		i, column = i+1, 1
	}
	if i >= len(starts) {
		return 0, false
	}
	offset = s.offset(s.characters(starts[i]) + column - 1)
	if !block && offset < len(s.text) && (s.text[offset] == '"' || s.text[offset] == '\'') {
		offset++
	}
	return offset, offset <= len(s.text)
}

// offset returns where the character of an index begins.
func (s *source) offset(character int) int {
	counts := s.counts()
	mark := sort.SearchInts(counts, character+1) - 1
	offset := mark * stride
	for left := character - counts[mark]; offset < len(s.text); offset++ {
		if !utf8.RuneStart(s.text[offset]) {
			continue
		}
		if left == 0 {
			break
		}
		left--
	}
	return offset
}

// align returns the index in written of the character that follows text. The two differ in
// white space, which YAML folds and indents, and in escapes.
func align(written, text []rune, style yaml.Style) (after int, ok bool) {
	j := 0
	for i := 0; i < len(text); {
		switch {
		case j >= len(written):
			return 0, false
		case written[j] == text[i]:
			if written[j] == '\'' && style&yaml.SingleQuotedStyle != 0 {
				j++ // the text has one of two
			}
			i, j = i+1, j+1
		case written[j] == '\\' && j+1 < len(written) && written[j+1] == 'n' && text[i] == '\n':
			i, j = i+1, j+2
		case unicode.IsSpace(written[j]) || written[j] == '\\':
			j++
		case unicode.IsSpace(text[i]):
			i++
		default:
			return 0, false
		}
	}
	return j, true
}
