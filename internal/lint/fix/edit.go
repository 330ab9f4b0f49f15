package fix

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// An edit inserts text before an offset. It belongs to a document and sets what
// pointers lead to: several where an alias shows the same text more than once.
type edit struct {
	offset   int
	text     string
	document int
	pointers []string
	changes  []Change
}

// apply makes edits that are sorted by offset.
func apply(text []byte, edits []edit) []byte {
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(text[at:e.offset])
		out.WriteString(e.text)
		at = e.offset
	}
	out.Write(text[at:])
	return out.Bytes()
}

// insertion returns what to insert, and where, to give the toleration that begins at
// offset the operator Equal. It returns false for a notation that it does not know.
func insertion(text []byte, offset int) (insert string, at int, ok bool) {
	if offset < 0 || offset >= len(text) {
		return "", 0, false
	}
	if text[offset] == '{' {
		insert, ok = flow(text[offset+1:])
		return insert, offset + 1, ok
	}
	insert, ok = block(text, offset)
	return insert, offset, ok
}

// block writes a line of its own before the first key, as deep as that.
func block(text []byte, offset int) (string, bool) {
	start := bytes.LastIndexByte(text[:offset], '\n') + 1
	before := string(bytes.TrimPrefix(text[start:offset], []byte("\uFEFF")))
	if strings.Trim(before, " -") != "" || bytes.IndexByte([]byte("*&!?|>[]#@`%\r\n"), text[offset]) >= 0 {
		return "", false
	}
	return "operator: Equal" + newline(text, offset) + strings.Repeat(" ", len(before)), true
}

// newline is how the line of an offset ends; where it does not, how the first one does.
func newline(text []byte, offset int) string {
	end := bytes.IndexByte(text[offset:], '\n')
	if end >= 0 {
		end += offset
	} else {
		end = bytes.IndexByte(text, '\n')
	}
	if end > 0 && text[end-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// flow writes an entry behind the opening brace, in the notation of the one that
// follows it.
func flow(rest []byte) (string, bool) {
	space := rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	rest = rest[len(space):]
	switch {
	case len(rest) == 0:
		return "", false
	case rest[0] == '}':
		return `"operator": "Equal"`, true
	}
	entry, comma := "operator: Equal", ", "
	if rest[0] == '"' {
		entry = `"operator": "Equal"`
		if end := bytes.Index(rest, []byte(`":`)); end >= 0 && end+2 < len(rest) && rest[end+2] != ' ' {
			entry, comma = `"operator":"Equal"`, ","
		}
	}
	if len(space) > 0 {
		return string(space) + entry + ",", true
	}
	return entry + comma, true
}

// lines finds offsets of lines and columns.
type lines struct {
	text   []byte
	starts []int
}

func newLines(text []byte) lines {
	l := lines{text, []int{0}}
	if bytes.HasPrefix(text, []byte("\uFEFF")) {
		l.starts[0] = len("\uFEFF")
	}
	for i, c := range text {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// offset returns where a line and column are, both counted from 1, columns in
// characters; -1 if there is no such place.
func (l lines) offset(line, column int) int {
	if line < 1 || line > len(l.starts) {
		return -1
	}
	offset := l.starts[line-1]
	for ; column > 1 && offset < len(l.text); column-- {
		_, size := utf8.DecodeRune(l.text[offset:])
		offset += size
	}
	return offset
}
