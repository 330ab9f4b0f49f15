package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/evictor"
)

// actSinceKey is where the ConfigMap says which taints are new enough to act on.
const actSinceKey = "actSince"

// confirmationPeriod is how often the ConfigMap is read.
const confirmationPeriod = 15 * time.Second

// confirmation is what an admin has said in the ConfigMap, which the first start in a
// mode that evicts makes, with its own time.
func (e *eviction) confirmation(ctx context.Context) (said evictor.Confirmation, err error) {
	if evictor.Mode(e.options.Mode) == evictor.ModeObserve {
		said.ActSince, err = ParseSince(e.options.ActSince)
		return said, err
	}
	maps := e.quiet.CoreV1().ConfigMaps(e.options.namespace)
	kept, err := maps.Get(ctx, e.options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Times of taints have no unit below a second: those of this second are older.
		now := time.Now().UTC().Truncate(time.Second).Add(time.Second)
		first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: e.options.Name}, Data: map[string]string{actSinceKey: now.Format(time.RFC3339)}}
		kept, err = maps.Create(ctx, first, metav1.CreateOptions{FieldManager: evictor.FieldManager})
		if apierrors.IsAlreadyExists(err) { // another replica was faster
			kept, err = maps.Get(ctx, e.options.Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return said, fmt.Errorf("ConfigMap %s/%s: %w", e.options.namespace, e.options.Name, err)
	}
	said, unread, err := e.options.readConfirmation(kept)
	if err != nil {
		return said, fmt.Errorf("ConfigMap %s/%s: %w", e.options.namespace, e.options.Name, err)
	}
	if unread != nil {
		e.log.Error(unread, "Cannot read acknowledgements; they acknowledge nothing", "configMap", e.options.namespace+"/"+e.options.Name)
	}
	return said, nil
}

// readConfirmation reads the ConfigMap. --act-since counts in place of what it says. The acknowledgements that are unread
// acknowledge nothing: a slip in one does not stop the controller, and the others count.
func (o Options) readConfirmation(kept *corev1.ConfigMap) (said evictor.Confirmation, unread, err error) {
	since := kept.Data[actSinceKey]
	if since == "" {
		since = kept.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	if o.ActSince != "" {
		since = o.ActSince
	}
	if said.ActSince, err = ParseSince(since); err != nil {
		return said, nil, fmt.Errorf("%s: %w", actSinceKey, err)
	}
	said.Ceilings = map[string]guard.Ceiling{}
	for key, text := range kept.Data {
		driver, is := strings.CutPrefix(key, guard.DriverCeiling(""))
		if !is {
			continue
		}
		ceiling, wrong := guard.ParseCeiling(text)
		if wrong != nil {
			unread = errors.Join(unread, fmt.Errorf("%s: %w", key, wrong))
			continue
		}
		said.Ceilings[driver] = ceiling
	}
	return said, unread, nil
}

// reconfirm reads the ConfigMap before a leader evicts, for a replica can have waited for days. It tries until that works, and
// reports false if ctx ends before.
func (e *eviction) reconfirm(ctx context.Context, controller *evictor.Controller) (said evictor.Confirmation, ok bool) {
	err := wait.PollUntilContextCancel(ctx, retryPeriod, true, func(ctx context.Context) (bool, error) {
		var err error
		if said, err = e.confirmation(ctx); err != nil {
			if ctx.Err() == nil {
				e.log.Error(err, "No pod is evicted until the acknowledgements can be read", "retryAfter", retryPeriod.String())
			}
			return false, nil
		}
		controller.Confirm(said)
		return true, nil
	})
	return said, err == nil
}

// listenToAdmin hands on what an admin writes into the ConfigMap after what was said before, until ctx ends. A ConfigMap
// that cannot be read changes nothing.
func (e *eviction) listenToAdmin(ctx context.Context, controller *evictor.Controller, before evictor.Confirmation) error {
	if evictor.Mode(e.options.Mode) == evictor.ModeObserve {
		return nil
	}
	tick := time.NewTicker(confirmationPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		said, err := e.confirmation(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.log.Error(err, "Cannot read the acknowledgements; using the last known ones")
		case !reflect.DeepEqual(said, before):
			controller.Confirm(said)
			before = said
		}
	}
}
