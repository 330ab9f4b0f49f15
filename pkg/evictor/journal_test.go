package evictor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A book is a journal that outlives controllers.
type book struct {
	mutex sync.Mutex
	text  []byte
	saves int
	err   error
}

func (b *book) Load(context.Context) ([]byte, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text, nil
}

func (b *book) Save(_ context.Context, record []byte) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.saves++
	if b.err != nil {
		return b.err
	}
	b.text = record
	return nil
}

// count is how often it was written to.
func (b *book) count() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.saves
}

func (b *book) fail(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.err = err
}

// comes adds a pod on gpu-0, as after a rollout.
func (b *bubble) comes(namespace, name string) {
	b.Helper()
	b.comesOn(namespace, name, "gpu-0")
}

func (b *bubble) comesOn(namespace, name, device string) {
	b.Helper()
	pod, claim := podOn(namespace, name, device)
	b.do(b.ResourceV1().ResourceClaims(namespace).Create(b.Context(), claim, metav1.CreateOptions{}))
	b.do(b.CoreV1().Pods(namespace).Create(b.Context(), pod, metav1.CreateOptions{}))
}

// TestBreakerRestart: a controller that is killed after every few evictions stops at the
// threshold like one that is not, for rules and for drivers, by pods and by namespaces; and
// after a calm time it begins again.
func TestBreakerRestart(t *testing.T) {
	for name, taints := range map[string][]runtime.Object{
		"rule":   {sliceOf(1), ruleOn("rule", "gpu-0", seconds(0))},
		"driver": {sliceOf(1, taint("broken", seconds(0)))},
	} {
		t.Run(name, func(t *testing.T) {
			options := tripped() // 10 pods
			options.Thresholds.Namespaces = 4
			journal := &book{}
			options.Journal = journal
			inBubble(t, options, taints, func(b *bubble) {
				for i := range 30 {
					b.comes("ns", fmt.Sprint("pod-", i))
					b.pass(20 * time.Second)
					if i%3 == 1 {
						b.stop()
						b.start(options)
					}
				}
				if len(b.deleted) != 10 {
					t.Errorf("%d deleted, the threshold is 10", len(b.deleted))
				}
				for i := range 30 {
					name := fmt.Sprint("pod-", i)
					if _, evicted := b.deleted["ns/"+name]; !evicted {
						b.gone("ns", name)
					}
				}
				b.pass(10 * time.Minute)
				for i := range 8 {
					b.comes(fmt.Sprint("ns-", i), "later")
					b.pass(20 * time.Second)
					b.stop()
					b.start(options)
				}
				b.pass(time.Minute)
				if len(b.deleted) != 14 {
					t.Errorf("%d deleted, 4 namespaces more than 10 pods are right", len(b.deleted))
				}
			})
		})
	}
}

// TestBreakerRestartOfDevices: devices and claims of evicted pods count after a restart as they did before, each once.
func TestBreakerRestartOfDevices(t *testing.T) {
	for name, test := range map[string]struct {
		percent     int
		acknowledge string
		device      func(int) string
		want        int
	}{
		"percent":                    {percent: 25, device: func(i int) string { return fmt.Sprint("gpu-", i) }, want: 10},
		"acknowledged devices":       {percent: 100, acknowledge: "devices<=6", device: func(i int) string { return fmt.Sprint("gpu-", i) }, want: 6},
		"acknowledged claims":        {percent: 100, acknowledge: "claims<=7", device: func(int) string { return "gpu-1" }, want: 7},
		"acknowledged, same devices": {percent: 100, acknowledge: "devices<=2", device: func(i int) string { return fmt.Sprint("gpu-", i%2) }, want: 30},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				options := tripped()
				options.Thresholds.Pods, options.Thresholds.Namespaces, options.Thresholds.Percent = 1000, 500, test.percent
				options.Journal = &book{}
				rule := ruleOn("rule", "", seconds(0))
				if test.acknowledge != "" {
					rule.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: test.acknowledge}
				}
				inBubble(t, options, []runtime.Object{sick(40), rule}, func(b *bubble) {
					for i := range 30 {
						b.comesOn("ns", fmt.Sprint("pod-", i), test.device(i))
						b.pass(20 * time.Second)
						if restarts && i%5 == 4 {
							b.stop()
							b.start(options)
						}
					}
					if len(b.deleted) != test.want {
						t.Errorf("%d deleted, want %d", len(b.deleted), test.want)
					}
				})
			})
		}
	}
}

// TestBreakerRestartOfTenants: a controller that is killed stops at the threshold also if each
// of the pods has a device of its own, and one namespace has more than the others.
func TestBreakerRestartOfTenants(t *testing.T) {
	options := tripped() // 10 pods
	options.Journal = &book{}
	inBubble(t, options, []runtime.Object{sick(40, taint("broken", seconds(0)))}, func(b *bubble) {
		for i := range 40 {
			b.comesOn(fmt.Sprint("ns-", i%5%3), fmt.Sprint("pod-", i), fmt.Sprint("gpu-", i))
			b.pass(20 * time.Second)
			if i%3 == 1 {
				b.stop()
				b.start(options)
			}
		}
		if len(b.deleted) != 10 {
			t.Errorf("%d deleted, the threshold is 10", len(b.deleted))
		}
	})
}

// TestKilledAnywhere kills the controller at random times while a rule evicts exactly as
// many pods as are acknowledged. If a kill made it count too many, some would be left; if
// too few, those that come afterwards would be evicted, too. The rule knows the number.
func TestKilledAnywhere(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		const n = 60
		options := tripped()
		options.Limits = Limits{PerSecond: 7}
		options.Journal = &book{}
		rule := ruleOn("rule", "gpu-0", seconds(0))
		rule.Annotations = map[string]string{v1alpha1.AcknowledgementAnnotation: fmt.Sprint("pods<=", n)}
		inBubble(t, options, append(manyOn("gpu-0", n), sliceOf(1), rule), func(b *bubble) {
			for range random.IntN(4) {
				b.pass(time.Duration(random.IntN(3000)) * time.Millisecond)
				b.stop()
				b.start(options)
			}
			b.pass(time.Minute)
			if len(b.deleted) != n {
				t.Errorf("%d of %d deleted", len(b.deleted), n)
			}
			b.stop()
			b.start(options)
			b.comes("ns", "one-too-many")
			b.pass(time.Minute)
			if len(b.deleted) != n {
				t.Errorf("%d deleted, the ceiling is %d", len(b.deleted), n)
			}
			if c := b.condition("rule", resourceapi.DeviceTaintConditionEvictionInProgress); c == nil || !strings.HasSuffix(c.Message, fmt.Sprintf(" %d pods evicted.", n)) {
				t.Errorf("the rule says %+v", c)
			}
		})
	}
}

// TestJournalFirst: no pod is evicted before the journal is written; then there is one
// write for the pods of ten seconds.
func TestJournalFirst(t *testing.T) {
	journal := &book{err: errors.New("the API server is down")}
	options := full
	options.Journal = journal
	const n = 1000
	inBubble(t, options, append(manyOn("gpu-0", n), sliceOf(1, taint("broken", seconds(0)))), func(b *bubble) {
		b.pass(time.Minute)
		b.expect(nil)
		if tries := journal.count(); tries < 30 || tries > 70 { // one a second, and some for events
			t.Errorf("%d tries to write in a minute", tries)
		}
		journal.fail(nil)
		before := journal.count()
		b.pass(2 * time.Minute)
		if len(b.deleted) != n {
			t.Errorf("%d deleted", len(b.deleted))
		}
		if saves := journal.count() - before; saves > 7 {
			t.Errorf("%d writes for %d pods, 20 a second", saves, n)
		}
	})
}

// TestConfigMapJournal: what is saved is loaded; an error says where the unreadable text is.
func TestConfigMapJournal(t *testing.T) {
	client := fake.NewClientset()
	j := ConfigMapJournal{Client: client, Namespace: "dra-steward", Name: "journal"}
	if got, err := j.Load(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("of no ConfigMap: %s, %v", got, err)
	}
	for _, want := range []string{`{"causes":[{"rule":"uid","evicted":5}]}`, `{"causes":[{"driver":"a"}]}`} {
		if err := j.Save(t.Context(), []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Load(t.Context()); err != nil || string(got) != want {
			t.Errorf("loaded %s, %v\nwant   %s", got, err, want)
		}
	}
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dra-steward", Name: "journal"}, Data: map[string]string{"evictions": "{"}}
	if _, err := client.CoreV1().ConfigMaps("dra-steward").Update(t.Context(), kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "ConfigMap dra-steward/journal: evictions: ") {
		t.Errorf("of nonsense: %v", err)
	}
}

// TestJournalOfOthers: a journal that another program has written is refused, or counts at least what
// it says. Nothing in it makes the circuit breaker count less than zero.
func TestJournalOfOthers(t *testing.T) {
	for text, refused := range map[string]bool{
		"":                               false,
		"null":                           false,
		"[]":                             true,
		`{"causes": 5}`:                  true,
		`{"causes": [{"pods": "many"}]}`: true,
		`{"causes": [{"rule": "rule", "pods": -1000}]}`:                                                       true,
		`{"causes": [{"driver": "a", "evicted": -1}]}`:                                                        true,
		`{"causes": [{"driver": "a", "devices": -1}]}`:                                                        true,
		`{"causes": [{"driver": "a", "claims": -1}]}`:                                                         true,
		`{"causes": [{"driver": "a", "pods": 3, "portions": {"b": {"pods": -1}}}]}`:                           true,
		`{"causes": [{"driver": "a", "pods": 3, "portions": {"b": {"weight": -1}}}]}`:                         true,
		`{"causes": [{"driver": "a", "pods": 3, "portions": {"b": {"pods": 2}, "c": {"pods": 2}}}]}`:          true,
		`{"next": [{"namespace": "ns", "name": "pod", "uid": "u", "causes": [0, -1, 99999999]}]}`:             false,
		`{"causes": [{"driver": "a", "pods": 3, "namespaces": ["a", "a"], "last": "2999-01-01T00:00:00Z"}]}`:  false,
		`{"causes": [{"rule": "", "driver": "", "pods": 1}], "unknown": {"deep": [[[[[[[[[[[[1]]]]]]]]]]]]}}`: false,
	} {
		inBubble(t, tripped(), []runtime.Object{sliceOf(1)}, func(b *bubble) {
			b.pass(time.Second)
			b.stop()
			b.controller.options.Journal = &book{text: []byte(text)}
			if err := b.controller.recall(b.Context()); (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "eviction journal") {
				t.Errorf("%s: %v, want an error: %v", text, err, refused)
			}
			b.start(tripped())
			b.pass(time.Second)
		})
	}
}

// TestFailedJournal: no pod is evicted while the journal cannot be read or written, and the metric says so. The
// controller goes on once it can, without a restart.
func TestFailedJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		journal *book
		mend    func(context.Context, *book) error
	}{
		"unreadable": {&book{text: []byte("garbage")}, func(ctx context.Context, b *book) error { return b.Save(ctx, nil) }},
		"unwritable": {&book{err: errors.New("forbidden")}, func(_ context.Context, b *book) error { b.fail(nil); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			options := full
			options.Journal = tt.journal
			inBubble(t, options, []runtime.Object{sliceOf(1, taint("broken", seconds(0))), manyOn("gpu-0", 1)[0], manyOn("gpu-0", 1)[1]}, func(b *bubble) {
				b.pass(time.Minute)
				b.expect(nil)
				if got := b.values("dra_steward_evictor_journal_failed"); !maps.Equal(got, map[string]float64{"": 1}) {
					t.Errorf("the metric is %v, want 1", got)
				}
				if err := tt.mend(b.Context(), tt.journal); err != nil {
					t.Fatal(err)
				}
				b.pass(recallInterval + time.Second)
				if got := b.values("dra_steward_evictor_journal_failed"); !maps.Equal(got, map[string]float64{"": 0}) {
					t.Errorf("the metric is %v, want 0", got)
				}
				if len(b.deleted) != 1 {
					t.Errorf("%d pods were evicted, want 1", len(b.deleted))
				}
			})
		})
	}
}

// TestRecordRoundTrip: a record is the same after it was stored.
func TestRecordRoundTrip(t *testing.T) {
	want := journalRecord{
		Causes: []recordedCause{
			{Rule: "uid", Evicted: 5, Pods: 4, Namespaces: []string{"ns"}, Portions: map[string]recordedPortion{"ns": {Pods: 4, Weight: 3, Last: bubbleStart}}, Devices: 3, Claims: 4, Drivers: []string{"a"}, Last: bubbleStart},
			{Driver: "a", Pods: 1, Last: bubbleStart},
		},
		Next: []recordedPod{{Namespace: "ns", Name: "pod", UID: "uid", Causes: []int{0}}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got journalRecord
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}
