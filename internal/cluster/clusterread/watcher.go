package clusterread

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// listAgain is the time until a list is read again that failed, or whose version the API server
// has forgotten.
const listAgain = time.Second

// refusedAgain is the time until a list is read again whose watch the API server refuses: credentials that
// have expired are renewed, an API server that starts does not know its roles yet.
const refusedAgain = 30 * time.Second

// ErrFilesWatched refuses to watch files.
var ErrFilesWatched = errors.New("--watch: only a cluster can be watched; remove --from-files")

// A Watcher keeps what a command reads current: the first read of a resource lists and then
// watches it, later reads make no request. What is missing or forbidden at first stays so.
type Watcher struct {
	changed chan struct{}
	warn    io.Writer
	reading *reading
	lister  *Lister

	mutex sync.Mutex
	lists map[string]*watched
	// failing are the lists that are not current.
	failing map[string]bool
}

// NewWatcher returns a Watcher that writes to warn when it loses the API server.
func NewWatcher(warn io.Writer) *Watcher {
	return &Watcher{changed: make(chan struct{}, 1), warn: warn, lists: map[string]*watched{}, failing: map[string]bool{}}
}

// Changed has a value after objects have changed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Failing names the lists that are not current, separated by commas; it is empty if all are.
func (w *Watcher) Failing() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(w.failing)), ", ")
}

// Every lets Changed have a value also after each interval, until ctx ends.
func (w *Watcher) Every(ctx context.Context, interval time.Duration) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(interval):
				w.signal()
			}
		}
	}()
}

// watched is a list that a watch keeps current.
type watched struct {
	what  string
	list  func() (objects []runtime.Object, version string, _ error)
	watch cache.WatchFuncWithContext
	keep  func(runtime.Object) error
	err   error

	mutex   sync.Mutex
	objects *sorted
}

// objects returns the objects of a list, in the order of the API server.
func (w *Watcher) objects(ctx context.Context, all *watched) ([]runtime.Object, error) {
	w.mutex.Lock()
	kept, known := w.lists[all.what]
	w.mutex.Unlock()
	if !known {
		kept = all
		version, err := kept.fill()
		if kept.err = err; err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
		w.mutex.Lock()
		w.lists[kept.what] = kept
		w.mutex.Unlock()
		if err == nil {
			go w.follow(ctx, kept, version)
		}
	}
	kept.mutex.Lock()
	defer kept.mutex.Unlock()
	return kept.objects.all(), kept.err
}

// fill lists the objects, and returns the version from which a watch goes on.
func (k *watched) fill() (version string, _ error) {
	objects, version, err := k.list()
	if err != nil {
		return "", err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.objects = newSorted(objects)
	return version, nil
}

// follow keeps a list current until ctx ends. A watch that the API server cannot continue
// begins again with a list.
func (w *Watcher) follow(ctx context.Context, k *watched, version string) {
	said := false
	for {
		err := w.events(ctx, k, version)
		if ctx.Err() != nil {
			return
		}
		pause := listAgain
		if !expired(err) { // refused: for now, or always
			if w.fails(k.what); !said {
				printable.Printf(w.warn, "warning: %s cannot be watched, their changes are not shown: %v\n", k.what, err)
			}
			said, pause = true, refusedAgain
		}
		for err != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if version, err = k.fill(); err != nil {
				w.note(k.what, err)
			}
		}
		w.note(k.what, nil)
		w.signal()
	}
}

// events applies the changes since version. It returns why there are no more.
func (w *Watcher) events(ctx context.Context, k *watched, version string) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		begun, err := k.watch(ctx, options)
		if gone := ended(err); gone != nil {
			return gone, nil
		}
		if ctx.Err() == nil && !apierrors.IsForbidden(err) {
			w.note(k.what, cmp.Or(err, unanswered(begun)))
		}
		return begun, err
	}})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		if k.keep(event.Object) != nil {
			continue // only a status has no name
		}
		k.mutex.Lock()
		k.objects.put(event.Object, event.Type != watch.Deleted)
		k.mutex.Unlock()
		w.signal()
	}
	return ctx.Err()
}

// unanswered is an error if a watch has ended before an answer. The client returns an empty watch then,
// as from a load balancer without an API server behind it.
func unanswered(begun watch.Interface) error {
	if reflect.TypeOf(begun) == reflect.TypeOf(watch.NewEmptyWatch()) {
		return errors.New("the connection ends before the API server answers")
	}
	return nil
}

// ended is a watch that says that its version is too old. RetryWatcher repeats such a request
// without limit if it is the request that fails, and not the watch.
func ended(err error) watch.Interface {
	failed := apierrors.APIStatus(nil)
	if !expired(err) || !errors.As(err, &failed) {
		return nil
	}
	status := failed.Status()
	gone := watch.NewFakeWithChanSize(1, false)
	gone.Error(&status)
	return gone
}

// expired reports whether the API server has forgotten a version.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// signal says that something has changed.
func (w *Watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // is said already
	}
}

// fails says that a list is not current.
func (w *Watcher) fails(what string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failing[what] = true
}

// note writes a line when the first list stops being current.
func (w *Watcher) note(what string, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err == nil {
		delete(w.failing, what)
		return
	}
	if len(w.failing) == 0 {
		printable.Printf(w.warn, "warning: not current since %s: %v; trying again\n", time.Now().Format(time.TimeOnly), cmdutil.Explain(err))
	}
	w.failing[what] = true
}
