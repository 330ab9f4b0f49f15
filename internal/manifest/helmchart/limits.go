package helmchart

import (
	"cmp"
	"context"
	"fmt"
	"runtime/metrics"
	"time"
)

// Limits bound what the rendering of a chart may cost. Zero fields have defaults. Helm
// reads up to 100 MiB of a chart.
type Limits struct {
	// Time is how long it may take: 30 seconds by default.
	Time time.Duration
	// Memory is how much it may need: 1 GiB by default.
	Memory uint64
	// Output is the size of all rendered texts: 64 MiB by default.
	Output int
}

const (
	defaultTime   = 30 * time.Second
	defaultMemory = 1 << 30
	defaultOutput = 64 << 20
	// A goroutine whose stack would grow beyond 1 GB ends the process; a stack doubles.
	maxStack = 256 << 20
	// checkEvery is how often the memory is measured.
	checkEvery = 10 * time.Millisecond
)

// watch calls work, and returns without it when it exceeds a limit: neither a template nor
// the reader of a chart ends with a context.
func (l Limits) watch(ctx context.Context, work func(context.Context) ([]File, error)) ([]File, error) {
	limit := cmp.Or(l.Time, defaultTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("rendering takes longer than %s: look for a loop in the templates", limit))
	defer cancel()
	type outcome struct {
		files []File
		err   error
	}
	done := make(chan outcome, 1)
	before := usage()
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("rendering failed: %v", p)
			}
			done <- o
		}()
		o.files, o.err = work(ctx)
	}()
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case o := <-done:
			if o.err != nil {
				return nil, o.err
			}
			return o.files, l.output(o.files)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
			if err := l.memory(before, usage()); err != nil {
				return nil, err
			}
		}
	}
}

func (l Limits) output(files []File) error {
	size, limit := 0, cmp.Or(l.Output, defaultOutput)
	for _, file := range files {
		size += len(file.Text)
	}
	if size > limit {
		return fmt.Errorf("the rendered objects have %d bytes, more than %d: render a part of the chart", size, limit)
	}
	return nil
}

// A used is the memory of the process.
type used struct{ heap, stacks uint64 }

func usage() used {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return used{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

func (l Limits) memory(before, now used) error {
	limit := cmp.Or(l.Memory, defaultMemory)
	switch {
	case now.heap > before.heap+limit:
		return fmt.Errorf("rendering needs more than %d bytes of memory: look for a loop in the templates", limit)
	case now.stacks > before.stacks+maxStack:
		return fmt.Errorf("rendering needs a stack of more than %d bytes: look for a template that calls itself", maxStack)
	}
	return nil
}
