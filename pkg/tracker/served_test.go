package tracker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// endpoint is one kind of an API server, which answers with an error while there is one.
type endpoint struct {
	all      runtime.Object
	mutex    sync.Mutex
	err      error
	watching *watch.FakeWatcher
}

func (e *endpoint) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			e.mutex.Lock()
			defer e.mutex.Unlock()
			return e.all, e.err
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			e.mutex.Lock()
			defer e.mutex.Unlock()
			if e.err == nil && options.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
			}
			e.watching = watch.NewFake()
			return e.watching, e.err
		},
	}
}

// answer ends the watch; the requests that follow have the error.
func (e *endpoint) answer(err error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.watching.Stop()
	e.err = err
}

// TestRulesNoLongerServed: once the API server has no rules any more, neither view nor informer has one,
// until it serves them again. An answer that does not say so changes nothing.
func TestRulesNoLongerServed(t *testing.T) {
	const seconds, minutes = 3 * time.Second, 10 * time.Minute
	resource := resourceapi.Resource("devicetaintrules")
	absent := apierrors.NewNotFound(resource, "")
	for name, tt := range map[string]struct {
		rules, slices error
		last          time.Duration
		kept          bool
	}{
		"not served":                 {absent, nil, minutes, false},
		"not served for a moment":    {absent, nil, seconds, true},
		"nothing is served":          {absent, absent, minutes, true},
		"reading is not allowed":     {apierrors.NewForbidden(resource, "", nil), nil, minutes, true},
		"the server does not answer": {errors.New("connection refused"), nil, minutes, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := &endpoint{all: &resourceapi.DeviceTaintRuleList{Items: []resourceapi.DeviceTaintRule{*taintRule("r", selector("d", "", ""))}}}
				published := &endpoint{all: &resourceapi.ResourceSliceList{Items: []resourceapi.ResourceSlice{*slice("s", "d", "p", "dev")}}}
				h := newHealth(logr.Discard(), []Kind{SliceKind, RuleKind}, time.Now())
				tracked := New(Options{Sources: Sources{health: h,
					Slices: h.observed(SliceKind, &resourceapi.ResourceSlice{}, nil, published.listWatch()),
					Rules:  h.observed(RuleKind, &resourceapi.DeviceTaintRule{}, nil, rules.listWatch())}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- tracked.Run(ctx) }()
				check := func(after time.Duration, when string, want bool) {
					t.Helper()
					<-time.After(after)
					synctest.Wait()
					device, _ := tracked.Snapshot().Device("d", "p", "dev")
					stored := len(tracked.options.Sources.Rules.GetStore().ListKeys())
					if len(device.Taints()) == 1 != want || tracked.Snapshot().Rule("r") != nil != want || stored == 1 != want {
						t.Errorf("%s: taints %v, %d rules stored, want them: %t", when, device.Taints(), stored, want)
					}
				}
				check(minutes, "first", true)
				rules.answer(tt.rules)
				published.answer(tt.slices)
				check(tt.last, "later", tt.kept)
				rules.answer(nil)
				published.answer(nil)
				check(minutes, "served again", true)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
