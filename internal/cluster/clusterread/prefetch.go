package clusterread

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// prefetch has lists that are read while a command reads another: the API server encodes one while the command decodes
// the other.
type prefetch struct {
	begun   map[string]func() ([]runtime.Object, error)
	stop    []context.CancelFunc
	running sync.WaitGroup
}

// readAhead begins a list that list asks for later, by what. A watcher lists once in any case.
func readAhead[L runtime.Object](ctx context.Context, r *reading, what string, from resource[L]) {
	if r.watcher != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r.prefetch.stop = append(r.prefetch.stop, stop)
	var objects []runtime.Object
	var err error
	done := make(chan struct{})
	r.prefetch.running.Go(func() {
		defer close(done)
		objects, _, err = readPages(ctx, r, what, from)
	})
	if r.prefetch.begun == nil {
		r.prefetch.begun = map[string]func() ([]runtime.Object, error){}
	}
	r.prefetch.begun[what] = func() ([]runtime.Object, error) { <-done; return objects, err }
}

// take waits for a list that was begun, once.
func (p *prefetch) take(what string) (wait func() ([]runtime.Object, error), begun bool) {
	wait, begun = p.begun[what]
	delete(p.begun, what)
	return wait, begun
}

// end ends the lists that nothing waited for.
func (p *prefetch) end() {
	for _, stop := range p.stop {
		stop()
	}
	p.running.Wait()
	p.begun, p.stop = nil, nil
}
