package installed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A load writes good and bad claims in turn, at a rate, and notes what came of each: a
// good one that is refused and a bad one that passes are failures. A request that did not
// reach the webhook lets the bad one pass, or, since claims are Fail, refuses the good one.
type load struct {
	stop func()

	mutex    sync.Mutex
	took     []time.Duration
	failures []string
	late     int
}

// failClosed makes every request that does not reach the webhook visible.
func failClosed(more map[string]any) map[string]any {
	values := map[string]any{"webhooks": map[string]any{"claims": map[string]any{"failurePolicy": "Fail"}}}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// startLoad sends perSecond dry runs in a second until it is stopped.
func startLoad(t *testing.T, perSecond int) *load {
	t.Helper()
	config := cluster.Config()
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{}
	var running sync.WaitGroup
	slots := make(chan struct{}, perSecond) // as many as can be late by a second
	running.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case slots <- struct{}{}:
				running.Go(func() {
					defer func() { <-slots }()
					l.one(clients, n)
				})
			default:
				l.mutex.Lock()
				l.late++
				l.mutex.Unlock()
			}
		}
	})
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// one writes a claim, which is not stored.
func (l *load) one(clients kubernetes.Interface, n int) {
	var claim *resourceapi.ResourceClaim
	if n%2 == 0 {
		claim = goodClaim()
	} else {
		claim = badClaim()
	}
	start := time.Now()
	_, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(context.Background(), claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	took := time.Since(start)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.took = append(l.took, took)
	switch denied := err != nil && strings.Contains(err.Error(), "claims.validate.dra-steward.io") && strings.Contains(err.Error(), "denied the request"); {
	case n%2 == 0 && err != nil:
		l.failures = append(l.failures, fmt.Sprintf("%s: a good claim: %v", start.Format("05.000"), err))
	case n%2 == 1 && !denied:
		l.failures = append(l.failures, fmt.Sprintf("%s: a bad claim: %v", start.Format("05.000"), err))
	}
}

// end stops the load and fails the test for every request that failed.
func (l *load) end(t *testing.T, what string) {
	t.Helper()
	l.stop()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	slices.Sort(l.took)
	t.Logf("%s: %d requests, %d failed, %d not sent in time; p50 %v, p99 %v, longest %v", what, len(l.took), len(l.failures), l.late,
		l.took[len(l.took)/2].Round(10*time.Microsecond), l.took[len(l.took)*99/100].Round(10*time.Microsecond), l.took[len(l.took)-1].Round(time.Millisecond))
	for i, failure := range l.failures {
		if i == 5 {
			t.Errorf("and %d more", len(l.failures)-i)
			break
		}
		t.Error(failure)
	}
}

// sent waits until so many more requests have been answered.
func (l *load) sent(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		return len(l.took)
	}
	until := count() + more
	eventually(t, "the load goes on", func(context.Context) error {
		if now := count(); now < until {
			return fmt.Errorf("%d of %d", now, until)
		}
		return nil
	})
}
