package cmdutil

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// watchPause is the shortest time between two prints of a watch.
const watchPause = time.Second

// Parts is what a watch prints: the lines of a table, or whole objects.
type Parts func(context.Context) ([]string, error)

// Watch prints parts, and when a value comes from changed those that are new or different,
// until ctx ends. It uses at most half of the time of a processor.
func Watch(ctx context.Context, streams Streams, changed <-chan struct{}, parts Parts) error {
	known := map[string]bool{}
	for first := true; ; first = false {
		begin := time.Now()
		all, err := parts(ctx)
		switch {
		case ctx.Err() != nil:
			return ErrInterrupted
		case err != nil && first:
			return err
		case err != nil:
			printable.Printf(streams.Err, "warning: %v\n", err)
		default:
			if known, err = printNew(streams.Out, known, all); err != nil {
				return err
			}
		}
		if !wait(ctx, time.After(max(watchPause, time.Since(begin)))) || !wait(ctx, changed) {
			return ErrInterrupted
		}
	}
}

// wait returns false if ctx ends before a value comes.
func wait[T any](ctx context.Context, value <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-value:
		return true
	}
}

// printNew writes the parts that are not known, and returns what is known then.
func printNew(out io.Writer, known map[string]bool, parts []string) (map[string]bool, error) {
	now := map[string]bool{}
	for _, part := range parts {
		// The widths of columns change with other lines.
		key := strings.Join(strings.Fields(part), " ")
		if now[key] = true; known[key] {
			continue
		}
		if err := printable.Page(out, part); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// Lines are the parts of a table.
func Lines(write func(io.Writer) error) (lines []string, _ error) {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return nil, err
	}
	for line := range strings.Lines(text.String()) {
		lines = append(lines, line)
	}
	return lines, nil
}

// Documents are the parts of a watch that prints values in one of kubectl's formats.
func Documents[T any](format string, values []T) (documents []string, _ error) {
	for _, value := range values {
		var text bytes.Buffer
		if format == "yaml" {
			text.WriteString("---\n")
		}
		if err := Print(&text, format, value); err != nil {
			return nil, err
		}
		documents = append(documents, text.String())
	}
	return documents, nil
}

// Once returns streams whose Err has each write once: a watch finds the same problem again
// with every change.
func (s Streams) Once() Streams {
	s.Err = &once{to: s.Err, written: map[string]bool{}}
	return s
}

// A once passes a write on if it is the first of its kind. Many can write at a time.
type once struct {
	to      io.Writer
	mutex   sync.Mutex
	written map[string]bool
}

func (o *once) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.written[string(text)] {
		return len(text), nil
	}
	o.written[string(text)] = true
	return o.to.Write(text)
}
