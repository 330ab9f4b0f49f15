package app

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/policystatus"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// policyLoad is what came of loading the policies of the ConfigMaps, and since when they
// are in force as far as the leader of the controllers has written that down.
type policyLoad struct {
	mutex    sync.Mutex
	revision string
	since    time.Time
	problems []policystatus.Problem
	inForce  map[string]policystatus.InForce
}

func (l *policyLoad) took(revision string, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.revision != revision {
		l.revision, l.since = revision, now.UTC().Truncate(time.Second)
	}
	l.problems = nil
}

func (l *policyLoad) refused(problems []policystatus.Problem) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.problems = problems
}

// record takes over what stands in the status.
func (l *policyLoad) record(object any) {
	configMap, is := object.(*corev1.ConfigMap)
	if !is {
		return
	}
	status, err := policystatus.Decode(configMap.Data)
	if err != nil {
		status.InForce = nil // the leader has logged it and writes it anew
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.inForce = status.InForce
}

// inForceSince tells since when policies with these digests are in force.
func (l *policyLoad) inForceSince(digests map[string]string) func(code string) (time.Time, bool) {
	return func(code string) (time.Time, bool) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		recorded, known := l.inForce[code]
		return recorded.Since, known && recorded.Digest == digests[code]
	}
}

// watch follows the ConfigMap with the status until ctx ends.
func (l *policyLoad) watch(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: l.record, UpdateFunc: func(_, object any) { l.record(object) }, DeleteFunc: func(any) { l.record(&corev1.ConfigMap{}) }})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// problemsOf says of each problem in which ConfigMap it is.
func (p *policyConfigMaps) problemsOf(err error) (all []policystatus.Problem) {
	for _, problem := range policy.Problems(err) {
		one := policystatus.Problem{Problem: problem}
		if inside, is := strings.CutPrefix(problem.File, p.sourceName("")); is {
			one.ConfigMap, one.File, _ = strings.Cut(inside, "/")
			if configMap, err := p.lister.ConfigMaps(p.namespace).Get(one.ConfigMap); err == nil {
				one.UID = configMap.UID
			}
		}
		all = append(all, one)
	}
	return all
}
