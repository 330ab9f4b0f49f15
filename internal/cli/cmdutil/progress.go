package cmdutil

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// Timing of a Progress: when the first line appears, and how often it changes.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 200 * time.Millisecond
)

// A Progress shows on a terminal what a command waits for, once that takes long. A nil
// Progress shows nothing.
type Progress struct {
	out io.Writer
	// login ends before anything is shown: the terminal is that of a credential plugin until then.
	login <-chan struct{}
	mutex sync.Mutex
	text  string
	shown bool
	ended chan struct{}
	end   sync.Once
	done  sync.WaitGroup
}

// Progress starts to show text on the terminal, if there is one, until End.
func (s Streams) Progress(text string) *Progress {
	begun := make(chan struct{})
	close(begun)
	return s.progress(text, begun)
}

func (s Streams) progress(text string, login <-chan struct{}) *Progress {
	if s.Terminal == nil {
		return nil
	}
	p := &Progress{out: s.Terminal, login: login, text: text, ended: make(chan struct{})}
	p.done.Go(p.show)
	return p
}

// While shows text on the terminal, if there is one and do takes long.
func While[T any](s Streams, text string, do func() (T, error)) (T, error) {
	p := s.Progress(text)
	defer p.End()
	return do()
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

// Clear removes the line from the terminal until it changes, so that something else can be written.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.shown {
		printable.Printf(p.out, clearLine)
	}
	p.shown = false
}

// End removes the line from the terminal. It can be called again.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.end.Do(func() { close(p.ended) })
	p.done.Wait()
}

// clearLine moves to the begin of a line and removes it.
const clearLine = "\r\033[K"

func (p *Progress) show() {
	defer p.Clear()
	select {
	case <-p.ended:
		return
	case <-p.login:
	}
	begin, wait := time.Now(), progressDelay
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(wait):
		}
		wait = progressInterval
		p.mutex.Lock()
		p.shown = true
		printable.Printf(p.out, clearLine+"%s (%.0f s)", p.text, time.Since(begin).Seconds())
		p.mutex.Unlock()
	}
}
