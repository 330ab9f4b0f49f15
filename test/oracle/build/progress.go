package build

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// progressInterval is how often a build says how far it is.
const progressInterval = 10 * time.Second

// counter reads what go build -v writes, a line per package, and reports at
// intervals. The go command writes often enough for that.
type counter struct {
	output      io.Writer
	start, next time.Time
	state       string
	done, total int
}

func (c *counter) compiling(total int) {
	c.state, c.done, c.total = "compiling", 0, total
}

func (c *counter) Write(p []byte) (int, error) {
	c.done += bytes.Count(p, []byte("\n"))
	if now := time.Now(); now.After(c.next) {
		c.next = now.Add(progressInterval)
		progress := ""
		if c.total > 0 {
			progress = fmt.Sprintf(" %d of at most %d packages", c.done, c.total)
		}
		fmt.Fprintf(c.output, "oracle: %s%s, %s so far\n", c.state, progress, now.Sub(c.start).Round(time.Second))
	}
	return len(p), nil
}
