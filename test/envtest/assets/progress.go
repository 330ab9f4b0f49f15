package assets

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress writes one line per event, and a line at intervals while a build
// runs. It is safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	out     io.Writer
	state   string
	total   int
	done    int
	started time.Time
	// compiles is when the first package is compiled.
	compiles time.Time
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out}
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(fmt.Sprintf(format, args...))
}

// print writes a line; the caller holds the mutex. A failing writer loses the
// line: progress is not worth failing a build for.
func (p *progress) print(line string) {
	fmt.Fprintf(p.out, "envtest: %s\n", line)
}

// phase sets what the lines at intervals report.
func (p *progress) phase(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.total, p.done = state, 0, 0
}

// compiling makes the lines at intervals report compiled packages of the total.
func (p *progress) compiling(total int) {
	p.phase("compiling")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.compiles = total, time.Now()
}

// compiled counts a line of go build -v, which is a package's import path.
func (p *progress) compiled(line []byte) {
	if bytes.ContainsAny(line, " \t:") {
		return // a message
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
}

// every reports on the named work at each interval until stopped.
func (p *progress) every(interval time.Duration, what string) (stop func()) {
	p.mu.Lock()
	p.started = time.Now()
	p.mu.Unlock()
	ticker := time.NewTicker(interval)
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ticker.C:
				p.report(what)
			case <-quit:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(quit)
		running.Wait()
	}
}

func (p *progress) report(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := time.Since(p.started).Round(time.Second)
	if p.total == 0 {
		p.print(fmt.Sprintf("%s: %s, %s so far", what, p.state, elapsed))
		return
	}
	if p.done >= p.total {
		p.print(fmt.Sprintf("%s: all %d packages compiled, linking, %s so far", what, p.total, elapsed))
		return
	}
	p.print(fmt.Sprintf("%s: %d of %d packages compiled, %s so far%s", what, p.done, p.total, elapsed, p.left()))
}

// left estimates how long the other packages take, from the pace of those that are
// compiled. There is no estimate from few of them: the packages of the standard library,
// which are first, are small.
func (p *progress) left() string {
	if p.done*10 < p.total {
		return ""
	}
	left := time.Since(p.compiles) * time.Duration(p.total-p.done) / time.Duration(p.done)
	if left < time.Minute {
		return ", less than a minute left"
	}
	return fmt.Sprintf(", about %d min left", int(left.Round(time.Minute)/time.Minute))
}
