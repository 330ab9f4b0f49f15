package clusterdata

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

// templatesPage is how many templates are read at once. Tenants write them, of up to 1.5 MiB each, and the list of a page is
// in memory as a whole.
const templatesPage = 20

// Templates knows how old the ResourceClaimTemplates are that make claims. It reads them
// when it is asked, which is only about claims that a policy denies.
type Templates struct {
	client  kubernetes.Interface
	log     logr.Logger
	reading singleflight.Group
	read    *utilcache.LRUExpireCache
	timeout time.Duration
}

// NewTemplates returns those of a cluster.
func NewTemplates(client kubernetes.Interface, log logr.Logger) *Templates {
	return &Templates{client: client, log: log, read: utilcache.NewLRUExpireCache(readsKept), timeout: readTimeout}
}

// Oldest returns when the oldest template of a namespace was created whose claims have
// this specification. A claim does not name its template; of several that say the same it
// makes no difference which it was.
func (t *Templates) Oldest(namespace string, spec *resourceapi.ResourceClaimSpec) (created time.Time, known bool) {
	key, err := spec.Marshal()
	if err != nil {
		return time.Time{}, false
	}
	id := namespace + "/" + string(key)
	if kept, found := t.read.Get(id); found {
		created, _ := kept.(time.Time)
		return created, !created.IsZero()
	}
	result, _, _ := t.reading.Do(id, func() (any, error) {
		created := t.oldest(namespace, spec)
		t.read.Add(id, created, readKept)
		return created, nil
	})
	created, _ = result.(time.Time)
	return created, !created.IsZero()
}

// oldest reads the templates of a namespace; zero if there is none or they cannot be read.
func (t *Templates) oldest(namespace string, spec *resourceapi.ResourceClaimSpec) (oldest time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	defer cancel()
	options := metav1.ListOptions{Limit: templatesPage}
	for {
		list, err := t.client.ResourceV1().ResourceClaimTemplates(namespace).List(ctx, options)
		if err != nil {
			t.log.Error(err, "cannot read templates; a claim from one is not refused", "namespace", namespace)
			return time.Time{}
		}
		for i := range list.Items {
			created := list.Items[i].CreationTimestamp.Time
			if (oldest.IsZero() || created.Before(oldest)) && equality.Semantic.DeepEqual(list.Items[i].Spec.Spec, *spec) {
				oldest = created
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return oldest
		}
	}
}
