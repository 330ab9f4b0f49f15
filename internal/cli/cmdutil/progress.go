package cmdutil

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Timing of a Progress: when the first line appears, and how often it changes.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 200 * time.Millisecond
)

// A Progress shows on a terminal what a command waits for, once that takes long. A nil
// Progress shows nothing.
type Progress struct {
	out   io.Writer
	mutex sync.Mutex
	text  string
	ended chan struct{}
	end   sync.Once
	done  sync.WaitGroup
}

// Progress starts to show text on the terminal, if there is one, until End.
func (s Streams) Progress(text string) *Progress {
	if s.Terminal == nil {
		return nil
	}
	p := &Progress{out: s.Terminal, text: text, ended: make(chan struct{})}
	p.done.Go(p.show)
	return p
}

// Say changes the text.
func (p *Progress) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.text = fmt.Sprintf(format, args...)
}

// End removes the line from the terminal. It can be called again.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.end.Do(func() { close(p.ended) })
	p.done.Wait()
}

func (p *Progress) show() {
	begin, wait, shown := time.Now(), progressDelay, false
	for {
		select {
		case <-p.ended:
			if shown {
				fmt.Fprint(p.out, "\r\033[K")
			}
			return
		case <-time.After(wait):
		}
		wait, shown = progressInterval, true
		p.mutex.Lock()
		text := p.text
		p.mutex.Unlock()
		fmt.Fprintf(p.out, "\r\033[K%s (%.0f s)", text, time.Since(begin).Seconds())
	}
}
