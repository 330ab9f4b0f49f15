package installed

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A load writes good and bad claims in turn, at a rate, and notes what came of each: a
// good one that is refused and a bad one that passes are failures. A request that did not
// reach the webhook lets the bad one pass, or, since claims are Fail, refuses the good one.
//
// Each write asks the webhook twice, to fill in and to judge.
type load struct {
	stop   func()
	begun  time.Time
	before map[string]*dto.Histogram

	mutex    sync.Mutex
	writes   []write
	failures []failure
	late     int
}

// A write was due at a time, began when a writer was free, and ended.
type write struct {
	due, end time.Time
	failed   bool
}

type failure struct {
	write
	text     string
	timedOut bool
}

const (
	// writers bounds the requests that are on their way: the API server keeps 25
	// connections to a webhook, and with more requests than that each further one costs
	// two handshakes, so that a slow machine gets slower until requests time out.
	writers = 16
	// asksPerWrite is how often a write asks the webhook.
	asksPerWrite = 2
)

// failClosed makes every request that does not reach the webhook visible.
func failClosed(more map[string]any) map[string]any {
	values := map[string]any{"webhooks": map[string]any{"claims": map[string]any{"failurePolicy": "Fail"}}}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// startLoad makes perSecond dry runs in a second until it is stopped; as many as can be
// done, where that is less.
func startLoad(t *testing.T, perSecond int) *load {
	t.Helper()
	config := cluster.Config()
	config.QPS, config.WarningHandler, config.ContentType = -1, rest.NoWarnings{}, runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{begun: time.Now(), before: asked(t, clients)}
	var running sync.WaitGroup
	due := make(chan time.Time)
	running.Go(func() { l.pace(ctx, time.Second/time.Duration(perSecond), due) })
	for range writers {
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case at := <-due:
					l.one(clients, at, n%2 == 0)
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// pace says when each write is due. What is late by a second is left out.
func (l *load) pace(ctx context.Context, every time.Duration, due chan<- time.Time) {
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for ; !next.After(time.Now()); next = next.Add(every) {
			if time.Since(next) > time.Second {
				l.mutex.Lock()
				l.late++
				l.mutex.Unlock()
				continue
			}
			select {
			case <-ctx.Done():
				return
			case due <- next:
			}
		}
		timer.Reset(time.Until(next))
	}
}

// one writes a claim, which is not stored.
func (l *load) one(clients kubernetes.Interface, due time.Time, good bool) {
	claim, what := badClaim(), "a bad claim"
	if good {
		claim, what = goodClaim(), "a good claim"
	}
	_, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(context.Background(), claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	denied := err != nil && strings.Contains(err.Error(), "claims.validate.dra-steward.io") && strings.Contains(err.Error(), "denied the request")
	w := write{due: due, end: time.Now(), failed: good && err != nil || !good && !denied}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.writes = append(l.writes, w)
	if w.failed {
		l.failures = append(l.failures, failure{w, fmt.Sprintf("%s: %s: %v", due.Format("05.000"), what, err),
			err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error())})
	}
}

// end stops the load and fails the test for every request that failed.
func (l *load) end(t *testing.T, what string) {
	t.Helper()
	l.stop()
	clients, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	took, lasted := l.took(), time.Since(l.begun)
	t.Logf("%s: %d writes, %.0f a second, %d failed, %d left out; p50 %v, p99 %v, longest %v", what, len(took), float64(len(took))/lasted.Seconds(), len(l.failures), l.late,
		took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond), took[len(took)-1].Round(time.Millisecond))
	for name, now := range asked(t, clients) {
		t.Logf("%s: %s", name, since(l.before[name], now, lasted))
	}
	reported := 0
	for _, failure := range l.failures {
		if failure.timedOut && l.overloaded(failure) {
			t.Logf("the machine is too slow, as for all writes at that time: %s", failure.text)
			continue
		}
		if reported++; reported <= 5 {
			t.Error(failure.text)
		}
	}
	if reported > 5 {
		t.Errorf("and %d more", reported-5)
	}
}

// took is how long the writes took from when they were due, sorted.
func (l *load) took() []time.Duration {
	var took []time.Duration
	for _, w := range l.writes {
		took = append(took, w.end.Sub(w.due))
	}
	slices.Sort(took)
	return took
}

// overloaded says whether a time-out tells of the machine and not of the webhook: what
// succeeded meanwhile took more than a second, too, by its median. Where a webhook loses a
// request the others go on.
func (l *load) overloaded(f failure) bool {
	var meanwhile []time.Duration
	for _, w := range l.writes {
		if !w.failed && w.end.After(f.due) && w.due.Before(f.end) {
			meanwhile = append(meanwhile, w.end.Sub(w.due))
		}
	}
	slices.Sort(meanwhile)
	return len(meanwhile) == 0 || meanwhile[len(meanwhile)/2] > time.Second
}

// sent waits until so many more requests have been answered.
func (l *load) sent(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		return len(l.writes)
	}
	until := count() + more
	eventually(t, "the load goes on", func(context.Context) error {
		if now := count(); now < until {
			return fmt.Errorf("%d of %d", now, until)
		}
		return nil
	})
}

// asked is how long webhooks took to answer, as the API server has measured, by their
// names.
func asked(t *testing.T, clients kubernetes.Interface) map[string]*dto.Histogram {
	t.Helper()
	text, err := clients.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	must(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	must(t, err)
	found := map[string]*dto.Histogram{}
	for _, metric := range families["apiserver_admission_webhook_admission_duration_seconds"].GetMetric() {
		for _, label := range metric.Label {
			if label.GetName() == "name" && strings.HasPrefix(label.GetValue(), "claims.") {
				add(found, label.GetValue(), metric.Histogram)
			}
		}
	}
	return found
}

// add sums up what was rejected and what was not, which have series of their own.
func add(sums map[string]*dto.Histogram, name string, h *dto.Histogram) {
	sum := sums[name]
	if sum == nil {
		sums[name] = h
		return
	}
	*sum.SampleCount += h.GetSampleCount()
	for i, bucket := range h.Bucket {
		*sum.Bucket[i].CumulativeCount += bucket.GetCumulativeCount()
	}
}

// since says what came to be between two looks.
func since(before, now *dto.Histogram, lasted time.Duration) string {
	count := now.GetSampleCount() - before.GetSampleCount()
	text := fmt.Sprintf("asked %d times, %.0f a second", count, float64(count)/lasted.Seconds())
	for i, bucket := range now.Bucket {
		within := bucket.GetCumulativeCount()
		if before != nil {
			within -= before.Bucket[i].GetCumulativeCount()
		}
		if within*100 >= count*99 {
			return text + fmt.Sprintf("; 99 %% answered within %v", time.Duration(bucket.GetUpperBound()*float64(time.Second)))
		}
	}
	return text
}
