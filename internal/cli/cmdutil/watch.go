package cmdutil

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// watchInterval is how often a table is read again.
const watchInterval = 5 * time.Second

// Watch prints a table, and then its lines that are new or have changed, until ctx ends.
func Watch(ctx context.Context, out io.Writer, table func(context.Context, io.Writer) error) error {
	known := map[string]bool{}
	for {
		var text bytes.Buffer
		if err := table(ctx, &text); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		now := map[string]bool{}
		for line := range strings.Lines(text.String()) {
			// The widths of columns change with other lines.
			key := strings.Join(strings.Fields(line), " ")
			if now[key] = true; !known[key] {
				if _, err := fmt.Fprint(out, line); err != nil {
					return err
				}
			}
		}
		known = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}
