package evictor

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// ConfigMapJournal is a [Journal] in a ConfigMap of its own, one call for each Save.
type ConfigMapJournal struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

const journalKey = "evictions"

// Load implements [Journal].
func (j ConfigMapJournal) Load(ctx context.Context) (record Record, err error) {
	kept, err := j.Client.CoreV1().ConfigMaps(j.Namespace).Get(ctx, j.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return record, nil
	}
	if err == nil && kept.Data[journalKey] != "" {
		if err = json.Unmarshal([]byte(kept.Data[journalKey]), &record); err != nil {
			err = fmt.Errorf("%s: %w; delete the ConfigMap, and the circuit breaker counts anew", journalKey, err)
		}
	}
	if err != nil {
		return Record{}, fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	return record, nil
}

// Save implements [Journal].
func (j ConfigMapJournal) Save(ctx context.Context, record Record) error {
	text, err := json.Marshal(record)
	if err == nil {
		_, err = j.Client.CoreV1().ConfigMaps(j.Namespace).Apply(ctx,
			ac.ConfigMap(j.Name, j.Namespace).WithData(map[string]string{journalKey: string(text)}),
			metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", j.Namespace, j.Name, err)
	}
	return nil
}
