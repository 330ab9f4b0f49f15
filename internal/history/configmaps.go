package history

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// ConfigMaps reads ConfigMaps of one namespace; a client has it.
type ConfigMaps interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.ConfigMap, error)
}

// ConfigMapKey is where a ConfigMap has its records.
const ConfigMapKey = "history.json.gz"

// ConfigMapPrefix is that of the names of the ConfigMaps of a controller.
func ConfigMapPrefix(controller string) string { return controller + "-history" }

// ConfigMapName is the name of one of the ConfigMaps, from 0 to [Shards].
func ConfigMapName(prefix string, shard int) string { return fmt.Sprintf("%s-%d", prefix, shard) }

// AddConfigMap adds what a ConfigMap has to a store; one that is not of the history adds nothing.
func AddConfigMap(store *Store, prefix string, object *corev1.ConfigMap, now time.Time) error {
	for shard := range Shards {
		if object.Name == ConfigMapName(prefix, shard) {
			if err := store.Decode(shard, object.BinaryData[ConfigMapKey], now); err != nil {
				return fmt.Errorf("ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
			}
		}
	}
	return nil
}

// Read reads all ConfigMaps. It needs the verb get, by name. found is how many there are.
func Read(ctx context.Context, client ConfigMaps, prefix string, now time.Time) (store *Store, found int, _ error) {
	store = &Store{}
	for shard := range Shards {
		object, err := client.Get(ctx, ConfigMapName(prefix, shard), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = AddConfigMap(store, prefix, object, now)
		}
		if err != nil {
			return nil, 0, err
		}
		found++
	}
	return store, found, nil
}

// ReadOne reads the record of one device, nil if there is none.
func ReadOne(ctx context.Context, client ConfigMaps, prefix string, device v1alpha1.DeviceName, now time.Time) (*Record, error) {
	object, err := client.Get(ctx, ConfigMapName(prefix, ShardOf(device)), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	store := &Store{}
	if err := AddConfigMap(store, prefix, object, now); err != nil {
		return nil, err
	}
	return store.Of(device), nil
}
