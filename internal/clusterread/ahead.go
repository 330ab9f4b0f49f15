package clusterread

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// ahead has lists that are read while a command reads another: the API server encodes one while the command decodes
// the other.
type ahead struct {
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
	r.ahead.stop = append(r.ahead.stop, stop)
	var objects []runtime.Object
	var err error
	done := make(chan struct{})
	r.ahead.running.Go(func() {
		defer close(done)
		objects, _, err = readPages(ctx, r, what, from)
	})
	if r.ahead.begun == nil {
		r.ahead.begun = map[string]func() ([]runtime.Object, error){}
	}
	r.ahead.begun[what] = func() ([]runtime.Object, error) { <-done; return objects, err }
}

// take waits for a list that was begun, once.
func (a *ahead) take(what string) (wait func() ([]runtime.Object, error), begun bool) {
	wait, begun = a.begun[what]
	delete(a.begun, what)
	return wait, begun
}

// end ends the lists that nothing waited for.
func (a *ahead) end() {
	for _, stop := range a.stop {
		stop()
	}
	a.running.Wait()
	a.begun, a.stop = nil, nil
}
