package printable_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünï and 日本":         "plain, ünï and 日本",
		"lines\n\tand\r\nmore":      "lines\n\tand\r\nmore",
		"\x1b[31mred\x1b[0m":        `\u001b[31mred\u001b[0m`,
		"over\rwritten":             `over\u000dwritten`,
		"title \x1b]0;x\x07":        `title \u001b]0;x\u0007`,
		"C1 \u009b31m":              `C1 \u009b31m`,
		"reversed \u202egpu":        `reversed \u202egpu`,
		"not UTF-8 \x9b31m":         `not UTF-8 \u009b31m`,
		"ends\r":                    `ends\u000d`,
		"deleted \x7f and \x00 nul": `deleted \u007f and \u0000 nul`,
	} {
		if got := printable.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\r\nc\rd\te": `a\u000ab\u000ac\u000dd\u0009e`, "::error::a": `\u003a:error::a`, " \u00a0::add-mask::a": " \u00a0" + `\u003a:add-mask::a`,
		"::1": "::1", "a ::error::": "a ::error::", "a ##[error]b": `a ##\u005berror]b`, "##vso[task]": `##vso\u005btask]`,
		"a\u2028b\u2029c\u200bd\U000e0041": `a\u2028b\u2029c\u200bd\udb40\udc41`,
	} {
		if got := printable.Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzWriter writes a text in two parts anywhere: the output is the same, and has nothing
// that a terminal obeys.
func FuzzWriter(f *testing.F) {
	f.Add("日本\r\n\x1b[31m\u202e\x9b", 2)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			return
		}
		var out strings.Builder
		w := printable.Writer{To: &out}
		for _, part := range []string{text[:at], text[at:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != printable.Text(text) {
			t.Errorf("%q at %d: %q, want %q", text, at, got, printable.Text(text))
		}
		for _, r := range strings.ReplaceAll(out.String(), "\r\n", "") {
			if r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)) {
				t.Errorf("%q: writes %q", text, r)
			}
		}
	})
}
