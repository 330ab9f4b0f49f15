package manifest

import (
	"bytes"
	"sort"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// source is the text of one document and its position.
type source struct {
	text []byte
	// line and column are where text begins in its file.
	line, column int
	// suspect is set if the text may hold keys twice that are not twice in the
	// JSON made of it.
	suspect bool
	// root returns the tree of positions, with Line and Column as in the file;
	// nil if there is none.
	root func() *yaml.Node
	// breaks returns the offsets in text at which its lines begin.
	breaks func() []int
	// counts returns the [characterCounts] of text.
	counts func() []int
}

func newSource(text []byte, line, column int, isJSON bool) *source {
	s := &source{text: text, line: line, column: column}
	s.breaks = sync.OnceValue(func() []int { return lineStarts(text) })
	s.counts = sync.OnceValue(func() []int { return characterCounts(text) })
	s.root = sync.OnceValue(func() *yaml.Node {
		if isJSON {
			return s.jsonTree()
		}
		return s.yamlTree()
	})
	return s
}

// at returns the line and column in the file of an offset in the text; columns
// count characters.
func (s *source) at(offset int) (line, column int) {
	starts := s.breaks()
	i := sort.SearchInts(starts, offset+1) - 1
	column = s.characters(offset) - s.characters(starts[i]) + 1
	if i == 0 {
		column += s.column - 1
	}
	return s.line + i, column
}

// stride is the distance of the offsets for which counts are kept.
const stride = 1 << 10

// characters returns the number of characters before the offset.
func (s *source) characters(offset int) int {
	mark := offset / stride
	return s.counts()[mark] + characterStarts(s.text[mark*stride:offset])
}

// characterCounts counts the characters before every offset that is a multiple
// of stride, so that columns in very long lines are found in constant time.
func characterCounts(text []byte) []int {
	counts := []int{0}
	for end := stride; end <= len(text); end += stride {
		counts = append(counts, counts[len(counts)-1]+characterStarts(text[end-stride:end]))
	}
	return counts
}

// characterStarts counts the bytes that begin a character of UTF-8 text.
func characterStarts(text []byte) int {
	count := 0
	for _, c := range text {
		if utf8.RuneStart(c) {
			count++
		}
	}
	return count
}

// lineAt returns the text of a line of the file, "" if it is not in the source.
func (s *source) lineAt(line int) string {
	starts := s.breaks()
	i := line - s.line
	if i < 0 || i >= len(starts) {
		return ""
	}
	end := len(s.text)
	if i+1 < len(starts) {
		end = starts[i+1]
	}
	return string(bytes.TrimRight(s.text[starts[i]:end], "\r\n"))
}

func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// hasOddBreaks reports whether the text holds characters that end a line for
// YAML 1.1 but not for editors: a lone carriage return, and the Unicode
// characters for next line, line separator and paragraph separator.
func hasOddBreaks(text []byte) bool {
	for i, c := range text {
		if c == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			return true
		}
	}
	return bytes.Contains(text, []byte("\u0085")) || bytes.Contains(text, []byte("\u2028")) ||
		bytes.Contains(text, []byte("\u2029"))
}

// yamlLineStarts returns where lines begin for a YAML 1.1 parser.
func yamlLineStarts(text []byte) []int {
	starts := []int{0}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch r {
		case '\r':
			if i < len(text) && text[i] == '\n' {
				continue
			}
			starts = append(starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			starts = append(starts, i)
		}
	}
	return starts
}
