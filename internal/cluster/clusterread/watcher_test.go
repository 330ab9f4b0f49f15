package clusterread

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// server answers lists and watches of nodes.
type server struct {
	// mutex is for what changes while a watcher waits: the end of a wait is no event for the race detector.
	mutex   sync.Mutex
	nodes   []string
	list    error
	refused error
	lists   int
	watches []string // the versions from which watches go on
	events  *watch.FakeWatcher
	// unanswered ends watches before an answer.
	unanswered atomic.Bool
}

func node(name, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"}}}}
}

// set changes a field.
func set[T any](s *server, field *T, to T) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	*field = to
}

func (s *server) List(context.Context, metav1.ListOptions) (*corev1.NodeList, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lists++
	all := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1" + strings.Repeat("0", s.lists)}}
	for _, name := range s.nodes {
		all.Items = append(all.Items, *node(name, "1"))
	}
	return all, s.list
}

func (s *server) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.watches = append(s.watches, options.ResourceVersion)
	if s.refused != nil {
		return nil, s.refused
	}
	if s.unanswered.Load() {
		return watch.NewEmptyWatch(), nil
	}
	s.events = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	return s.events, nil
}

// reads returns a function that reads the names of the nodes through a watcher.
func reads(t *testing.T, s *server, warn *bytes.Buffer) (func() (string, error), *Watcher) {
	r := &reading{watcher: NewWatcher(warn)}
	return func() (string, error) {
		synctest.Wait()
		nodes, err := list[*corev1.Node](t.Context(), r, "nodes", s)
		var names []string
		for _, n := range nodes {
			if names = append(names, n.Name); n.ManagedFields != nil {
				t.Errorf("%s has managed fields", n.Name)
			}
		}
		synctest.Wait()
		return strings.Join(names, " "), err
	}, r.watcher
}

// TestManagedFields: a list without a watcher has none either.
func TestManagedFields(t *testing.T) {
	nodes, err := list[*corev1.Node](t.Context(), &reading{}, "nodes", &server{nodes: []string{"a"}})
	if err != nil || len(nodes) != 1 || nodes[0].ManagedFields != nil {
		t.Errorf("the list has %+v, %v, want one node without managed fields", nodes, err)
	}
}

// TestWatcher: a list is read once, and then kept by its watch; a watch that ends goes on from
// its last version, and one that is too old begins again with a list.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warn bytes.Buffer
		s := &server{nodes: []string{"a", "b"}}
		read, w := reads(t, s, &warn)
		want := func(names string) {
			t.Helper()
			if got, err := read(); got != names || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, names)
			}
		}
		want("a b")
		s.events.Add(node("c", "20"))
		s.events.Delete(node("a", "21"))
		want("b c")
		<-w.Changed()
		s.events.Stop()
		<-time.After(2 * time.Second)
		want("b c")
		if got := strings.Join(s.watches, " "); s.lists != 1 || got != "10 21" {
			t.Errorf("%d lists, watches from %s", s.lists, got)
		}
	})
}

// TestWatcherExpired: a version that the API server has forgotten, as an event or as an answer,
// leads to a new list.
func TestWatcherExpired(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old")
	for what, expire := range map[string]func(*server){
		"event":  func(s *server) { s.events.Error(&gone.ErrStatus) },
		"answer": func(s *server) { set(s, &s.refused, error(gone)); s.events.Stop() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var warn bytes.Buffer
				s := &server{nodes: []string{"a"}}
				read, w := reads(t, s, &warn)
				if _, err := read(); err != nil {
					t.Fatal(err)
				}
				set(s, &s.nodes, []string{"b"})
				expire(s)
				<-w.Changed()
				synctest.Wait()
				set(s, &s.refused, nil)
				if got, err := read(); got != "b" || err != nil || s.lists < 2 {
					t.Errorf("got %q, %v after %d lists", got, err, s.lists)
				}
				if warn.Len() > 0 {
					t.Error(warn.String())
				}
			})
		})
	}
}

// TestWatcherErrors: a list that is forbidden stays so; other errors of the first list are
// returned; a watch that is forbidden is a warning, and so is the loss of the API server, once.
func TestWatcherErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	synctest.Test(t, func(t *testing.T) {
		var warn bytes.Buffer
		s := &server{list: errors.New("refused")}
		read, _ := reads(t, s, &warn)
		if _, err := read(); err == nil {
			t.Error("no error")
		}
		set(s, &s.list, error(forbidden))
		for range 2 {
			if _, err := read(); !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		}
		if s.lists != 2 {
			t.Errorf("%d lists", s.lists)
		}
	})
	for want, refused := range map[string]error{"warning: nodes cannot be watched, their changes are not shown: ": forbidden, "warning: not current since ": errors.New("refused")} {
		synctest.Test(t, func(t *testing.T) {
			var warn bytes.Buffer
			s := &server{nodes: []string{"a"}, refused: refused}
			read, _ := reads(t, s, &warn)
			if got, err := read(); got != "a" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			<-time.After(10 * time.Second)
			if got := warn.String(); !strings.HasPrefix(got, want) || strings.Count(got, "warning") != 1 {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestWatcherUnanswered: connections that end before an answer, as those of a load balancer without an
// API server behind it, are the loss of the API server; the client makes empty watches of them.
func TestWatcherUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warn bytes.Buffer
		s := &server{nodes: []string{"a"}}
		s.unanswered.Store(true)
		read, w := reads(t, s, &warn)
		if got, err := read(); got != "a" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		<-time.After(10*time.Second + time.Millisecond)
		synctest.Wait()
		if w.Failing() != "nodes" || strings.Count(warn.String(), "warning: not current since ") != 1 {
			t.Errorf("failing %q, said %q", w.Failing(), warn.String())
		}
		s.unanswered.Store(false)
		<-time.After(time.Minute)
		synctest.Wait()
		if w.Failing() != "" {
			t.Errorf("with the API server back, failing %q", w.Failing())
		}
	})
}
