package devicehistory

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/history"
)

// FieldManager is the name under which the controller writes.
const FieldManager = "dra-steward-history"

// A stored shard is as the API server has it.
type stored struct {
	// version is its resource version, empty for a ConfigMap that does not exist.
	version string
	// written is when it was written last, or tried.
	written time.Time
}

// fetch reads a shard. What another has written since is merged into the store.
func (c *Controller) fetch(ctx context.Context, shard int) error {
	object, err := c.ConfigMaps.Get(ctx, history.ConfigMapName(c.Prefix, shard), metav1.GetOptions{})
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
	err = history.AddConfigMap(c.store, c.Prefix, object, time.Now())
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
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: history.ConfigMapName(c.Prefix, shard), ResourceVersion: version,
		Labels:      map[string]string{"app.kubernetes.io/managed-by": FieldManager},
		Annotations: map[string]string{"dra-steward.io/about": "History of devices, for \"dra-steward history\"."}},
		BinaryData: map[string][]byte{history.ConfigMapKey: data}}
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
