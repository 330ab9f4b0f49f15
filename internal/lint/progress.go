package lint

import (
	"fmt"
	"io"
	"time"

	"github.com/dra-steward/dra-steward/internal/printable"
)

// A Progress shows on a terminal that a long run goes on. Its zero value shows nothing.
type Progress struct {
	// Out is the terminal.
	Out io.Writer
	// Now returns the time.
	Now func() time.Time

	documents   int
	start, next time.Time
	shown       bool
}

// Timing of a Progress: when the first line appears, and how often it changes.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 200 * time.Millisecond
)

// Count counts an object of a file.
func (p *Progress) Count(file string) {
	if p.Out == nil {
		return
	}
	p.documents++
	now := p.Now()
	if p.start.IsZero() {
		p.start, p.next = now, now.Add(progressDelay)
	}
	if now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressInterval), true
	fmt.Fprintf(p.Out, "\r\033[K%d objects in %.0f s, now %s", p.documents, now.Sub(p.start).Seconds(), printable.Text(file))
}

// Hide takes the line away, for something else to be written.
func (p *Progress) Hide() {
	if p.shown {
		fmt.Fprint(p.Out, "\r\033[K")
		p.shown = false
	}
}
