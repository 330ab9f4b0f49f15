package clusterread

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// upgraded is an API server that serves DeviceTaintRules in one version.
type upgraded struct {
	served string
	rules  []string
	events *watch.FakeWatcher
	// asked is how often it says which version it serves; it fails if away.
	asked int
	away  error
}

func (u *upgraded) ask() (untyped, error) {
	u.asked++
	if u.served == "" && u.away == nil {
		return nil, ErrNoRules
	}
	return rulesIn{u, u.served}, u.away
}

// rulesIn are the rules in a version, which may be gone.
type rulesIn struct {
	*upgraded
	version string
}

func (r rulesIn) gone() error {
	if r.version == r.served {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "devicetaintrules"}, "")
}

func (r rulesIn) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	all := &unstructured.UnstructuredList{}
	all.SetResourceVersion("10")
	for _, name := range r.rules {
		all.Items = append(all.Items, *r.rule(name))
	}
	return all, r.gone()
}

func (r rulesIn) rule(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "resource.k8s.io/" + r.version, "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": name, "resourceVersion": "11"}}}
}

func (r rulesIn) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if err := r.gone(); err != nil {
		return nil, err
	}
	r.events = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	return r.events, nil
}

// TestServedRules: after an upgrade of the API server that removes a version, a watcher and a list read the
// newer one.
func TestServedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warn bytes.Buffer
		u := &upgraded{served: "v1beta2", rules: []string{"a"}}
		watching := &reading{watcher: NewWatcher(&warn), served: &servedRules{ask: u.ask}}
		once := &reading{served: &servedRules{ask: u.ask}}
		read := func(r *reading) string {
			t.Helper()
			rules, err := list[*unstructured.Unstructured](t.Context(), r, "DeviceTaintRules", r.served)
			if err != nil {
				t.Error(err)
			}
			var names []string
			for _, rule := range rules {
				names = append(names, rule.GetName())
			}
			synctest.Wait()
			return strings.Join(names, " ")
		}
		if a, b := read(watching), read(once); a != "a" || b != "a" || u.asked != 2 {
			t.Fatalf("%q, %q, asked %d times", a, b, u.asked)
		}
		u.served, u.rules = "v1", []string{"a", "b"}
		u.events.Stop()
		<-time.After(5 * time.Second)
		synctest.Wait()
		u.events.Add(rulesIn{u, "v1"}.rule("b"))
		synctest.Wait()
		if a, b := read(watching), read(once); a != "a b" || b != "a b" || watching.watcher.Failing() != "" {
			t.Errorf("after the upgrade: %q, %q, failing %q", a, b, watching.watcher.Failing())
		}
	})
}

// TestServedRulesAsked: which version is served is asked again after an error, and not if none is.
func TestServedRulesAsked(t *testing.T) {
	u := &upgraded{away: errors.New("away")}
	served := &servedRules{ask: u.ask}
	for _, want := range []error{u.away, ErrNoRules, ErrNoRules} {
		if _, err := served.List(t.Context(), metav1.ListOptions{}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		u.away = nil
	}
	if u.asked != 2 {
		t.Errorf("asked %d times, want 2", u.asked)
	}
	u.served = "v1"
	gone := &servedRules{ask: func() (untyped, error) { u.asked++; return rulesIn{u, "v1beta2"}, nil }}
	if _, err := gone.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) || u.asked != 4 {
		t.Errorf("a version that is gone, and served: %v, asked %d times", err, u.asked)
	}
}
