package devicehistory

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/history"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "dra-steward-history"

// key is where a ConfigMap has its records.
const key = "history.json.gz"

// Prefix is that of the names of the ConfigMaps of a controller.
func Prefix(controller string) string { return controller + "-history" }

// Name is the name of one of the ConfigMaps, from 0 to [history.Shards].
func Name(prefix string, shard int) string { return fmt.Sprintf("%s-%d", prefix, shard) }

// Add adds what a ConfigMap has to a store; one that is not of the history adds nothing.
func Add(store *history.Store, prefix string, object *corev1.ConfigMap, now time.Time) error {
	for shard := range history.Shards {
		if object.Name == Name(prefix, shard) {
			if err := store.Decode(shard, object.BinaryData[key], now); err != nil {
				return fmt.Errorf("ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
			}
		}
	}
	return nil
}

// Read reads all ConfigMaps. It needs the verb get, by name. found is how many there are.
func Read(ctx context.Context, client coreclient.ConfigMapInterface, prefix string, now time.Time) (store *history.Store, found int, _ error) {
	store = &history.Store{}
	for shard := range history.Shards {
		object, err := client.Get(ctx, Name(prefix, shard), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = Add(store, prefix, object, now)
		}
		if err != nil {
			return nil, 0, err
		}
		found++
	}
	return store, found, nil
}

// ReadOne reads the record of one device, nil if there is none.
func ReadOne(ctx context.Context, client coreclient.ConfigMapInterface, prefix string, device v1alpha1.DeviceName, now time.Time) (*history.Record, error) {
	object, err := client.Get(ctx, Name(prefix, history.ShardOf(device)), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	store := &history.Store{}
	if err := Add(store, prefix, object, now); err != nil {
		return nil, err
	}
	return store.Of(device), nil
}

// A stored shard is as the API server has it.
type stored struct {
	// version is its resource version, empty for a ConfigMap that does not exist.
	version string
	// written is when it was written last, or tried.
	written time.Time
}

// fetch reads a shard. What another has written since is merged into the store.
func (c *Controller) fetch(ctx context.Context, shard int) error {
	object, err := c.ConfigMaps.Get(ctx, Name(c.Prefix, shard), metav1.GetOptions{})
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if apierrors.IsNotFound(err) {
		if c.stored[shard].version != "" {
			c.store.Change(shard)
		}
		c.stored[shard].version = ""
		return nil
	}
	if err != nil {
		return err
	}
	if object.ResourceVersion == c.stored[shard].version {
		return nil
	}
	first := c.stored[shard].version == ""
	c.stored[shard].version = object.ResourceVersion
	err = Add(c.store, c.Prefix, object, time.Now())
	if err != nil {
		c.Logger.Error(err, "Cannot read a part of the history of devices: it is written again, without what it had")
	}
	if err != nil || !first {
		c.store.Change(shard)
	}
	for _, device := range c.store.Open() {
		if history.ShardOf(device) == shard {
			c.dirty[device] = struct{}{}
		}
	}
	return nil
}

// write stores a shard. Another leader's write is read first, and merged.
func (c *Controller) write(ctx context.Context, shard int) error {
	c.mutex.Lock()
	data, err := c.store.Encode(shard)
	at := &c.stored[shard]
	at.written = time.Now()
	version := at.version
	c.mutex.Unlock()
	if err != nil {
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name(c.Prefix, shard), ResourceVersion: version,
		Labels:      map[string]string{"app.kubernetes.io/managed-by": FieldManager},
		Annotations: map[string]string{"dra-steward.io/about": "History of devices, for \"dra-steward history\"."}},
		BinaryData: map[string][]byte{key: data}}
	written := object
	if version == "" {
		written, err = c.ConfigMaps.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		written, err = c.ConfigMaps.Update(ctx, object, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if err == nil {
		c.mutex.Lock()
		at.version = written.ResourceVersion
		c.mutex.Unlock()
		return nil
	}
	c.mutex.Lock()
	c.store.Change(shard)
	c.mutex.Unlock()
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return c.fetch(ctx, shard)
	}
	return err
}
