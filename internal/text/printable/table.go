package printable

import (
	"bufio"
	"io"
	"text/tabwriter"
)

// A Table aligns the cells of lines, which tabs separate. It is written when it is flushed, in large pieces: a
// tabwriter writes each cell and its padding by itself.
type Table struct {
	*tabwriter.Writer
	buffer *bufio.Writer
}

// NewTable returns a table with so many spaces between its columns.
func NewTable(out io.Writer, spaces int) *Table {
	buffer := bufio.NewWriterSize(out, 64<<10)
	return &Table{tabwriter.NewWriter(buffer, 0, 0, spaces, ' ', 0), buffer}
}

// Flush writes what was not written yet.
func (t *Table) Flush() error {
	if err := t.Writer.Flush(); err != nil {
		return err
	}
	return t.buffer.Flush()
}
