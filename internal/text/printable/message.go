package printable

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A constant is a format of this program: no text that was read can be one.
type constant string

// Cells are texts of a line of a [Table], each in a column of its own.
type Cells []string

// Printf is [fmt.Fprintf] with operands that stay in their line and cell: the line feeds and tabs of the output are
// those of the format and between [Cells].
func Printf(out io.Writer, format constant, operands ...any) (int, error) {
	for i, o := range operands {
		operands[i] = operand{o}
	}
	return fmt.Fprintf(out, string(format), operands...)
}

// An operand is one of [Printf].
type operand struct{ value any }

// Format implements [fmt.Formatter].
func (o operand) Format(state fmt.State, verb rune) {
	cells, several := o.value.(Cells)
	if !several {
		cells = Cells{fmt.Sprintf(fmt.FormatString(state, verb), o.value)}
	}
	for i, text := range cells {
		if i > 0 {
			_, _ = io.WriteString(state, "\t") // Fprintf reports the errors of its writer
		}
		_, _ = io.WriteString(state, Line(text))
	}
}

// Page writes a text of many lines, such as Markdown. Each is escaped as by [Line], except for tabs.
func Page(out io.Writer, text string) error {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = lineOf(line)
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n"))
	return err
}

// Error is the text of an error with a line for each of the errors that are joined in it. Their own line feeds are
// escaped.
func Error(err error) string { return strings.Join(errorLines(err), "\n") }

func errorLines(err error) (lines []string) {
	text := err.Error()
	if joined, is := err.(interface{ Unwrap() []error }); is {
		texts := []string{}
		for _, one := range joined.Unwrap() {
			texts = append(texts, one.Error())
			lines = append(lines, errorLines(one)...)
		}
		if strings.Join(texts, "\n") == text {
			return lines
		}
	} else if within := errors.Unwrap(err); within != nil {
		before, ends := strings.CutSuffix(text, within.Error())
		if lines := errorLines(within); ends && len(lines) > 1 {
			lines[0] = Line(before) + lines[0]
			return lines
		}
	}
	return []string{Line(text)}
}
