// Package printable makes text safe for a terminal. Names, messages and attributes that
// tenants and drivers write can contain control characters, which move the cursor, hide
// lines or set the title of a window.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns text in which control characters and those without a width are escaped as in JSON, as \u001b, so that
// JSON stays JSON. Line feeds, tabs, and carriage returns before a line feed stay.
func Text(text string) string {
	clean, rest := appendClean(nil, []byte(text), true)
	return string(append(clean, rest...))
}

// Line is [Text] in one line and one cell: line feeds and tabs are escaped as well, and commands of CI systems.
func Line(text string) string {
	return strings.ReplaceAll(lineOf(text), "\t", `\u0009`)
}

// lineOf escapes line feeds, and what a CI system obeys: ::error:: at the beginning of a line, and ##[error] in it.
func lineOf(text string) string {
	text = strings.NewReplacer("\r\n", `\u000a`, "\n", `\u000a`, "##[", `##\u005b`, "##vso[", `##vso\u005b`).Replace(Text(text))
	if start := strings.TrimLeftFunc(text, unicode.IsSpace); strings.HasPrefix(start, "::") && strings.Count(start, "::") > 1 {
		return text[:len(text)-len(start)] + `\u003a` + start[1:]
	}
	return text
}

// A Writer escapes control characters in what it passes on, like [Text].
type Writer struct {
	To io.Writer

	// rest is the end of the last write that cannot be decided about without the next.
	rest []byte
}

// Write implements [io.Writer].
func (w *Writer) Write(data []byte) (int, error) {
	clean, rest := appendClean(nil, append(w.rest, data...), false)
	w.rest = append([]byte(nil), rest...)
	if len(clean) == 0 {
		return len(data), nil
	}
	if _, err := w.To.Write(clean); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Flush writes what was held back until the next write.
func (w *Writer) Flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	clean, _ := appendClean(nil, w.rest, true)
	w.rest = nil
	_, err := w.To.Write(clean)
	return err
}

// appendClean appends data without control characters. Unless data is all there is, it
// returns an incomplete character at the end as rest.
func appendClean(clean, data []byte, all bool) (_, rest []byte) {
	for len(data) > 0 {
		if !all && (!utf8.FullRune(data) || data[0] == '\r' && len(data) == 1) {
			return clean, data
		}
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			clean = fmt.Appendf(clean, `\u%04x`, data[0])
		case r == '\n', r == '\t', r == '\r' && len(data) > 1 && data[1] == '\n':
			clean = append(clean, data[0])
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			for _, unit := range utf16.AppendRune(nil, r) {
				clean = fmt.Appendf(clean, `\u%04x`, unit)
			}
		default:
			clean = append(clean, data[:size]...)
		}
		data = data[size:]
	}
	return clean, nil
}
