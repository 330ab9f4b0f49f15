package policyload

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

	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Status is the outcome of loading the policies of the ConfigMaps, and the time at which they
// took effect, if the leader of the controllers has recorded it.
type Status struct {
	Mutex    sync.Mutex
	Revision string
	Since    time.Time
	Problems []policyoutcome.Problem
	inForce  map[string]policyoutcome.InForce
}

func (l *Status) took(revision string, now time.Time) {
	l.Mutex.Lock()
	defer l.Mutex.Unlock()
	if l.Revision != revision {
		l.Revision, l.Since = revision, now.UTC().Truncate(time.Second)
	}
	l.Problems = nil
}

func (l *Status) refused(problems []policyoutcome.Problem) {
	l.Mutex.Lock()
	defer l.Mutex.Unlock()
	l.Problems = problems
}

// record takes over what is in the status.
func (l *Status) record(object any) {
	configMap, is := object.(*corev1.ConfigMap)
	if !is {
		return
	}
	status, err := policyoutcome.Decode(configMap.Data)
	if err != nil {
		status.InForce = nil // the leader has logged it and writes it again
	}
	l.Mutex.Lock()
	defer l.Mutex.Unlock()
	l.inForce = status.InForce
}

// InForceSince returns when policies with these digests took effect.
func (l *Status) InForceSince(digests map[string]string) func(code string) (time.Time, bool) {
	return func(code string) (time.Time, bool) {
		l.Mutex.Lock()
		defer l.Mutex.Unlock()
		recorded, known := l.inForce[code]
		return recorded.Since, known && recorded.Digest == digests[code]
	}
}

// watch follows the ConfigMap with the status until ctx ends.
func (l *Status) watch(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
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
func (p *ConfigMaps) problemsOf(err error) (all []policyoutcome.Problem) {
	for _, problem := range policy.Problems(err) {
		one := policyoutcome.Problem{Problem: problem}
		if inside, is := strings.CutPrefix(problem.File, p.sourceName("")); is {
			one.ConfigMap, one.File, _ = strings.Cut(inside, "/")
			if configMap, err := p.Lister.ConfigMaps(p.Namespace).Get(one.ConfigMap); err == nil {
				one.UID = configMap.UID
			}
		}
		all = append(all, one)
	}
	return all
}
