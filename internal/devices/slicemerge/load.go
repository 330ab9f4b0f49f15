package slicemerge

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// Records are kept in so many ConfigMaps, whose names are known beforehand, so that rights
// can name them.
const RecordConfigMaps = 8

// RecordKey is where a ConfigMap has its records.
const RecordKey = "records.json.gz"

// RecordName is the name of one of the ConfigMaps, from 0 on.
func RecordName(prefix string, number int) string { return fmt.Sprintf("%s-%d", prefix, number) }

func ReadRecords(ctx context.Context, client coreclient.ConfigMapInterface, name string) ([]byte, error) {
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("recorded values of drivers: %w", err)
	}
	return object.BinaryData[RecordKey], nil
}

// loadTimeout is the timeout of a reader of records.
const loadTimeout = 10 * time.Second

// Load reads what a Recorder has written, as far as it can: an error is about the rest. It
// needs the verb get, by name.
func (l *PoolOriginals) Load(ctx context.Context, client coreclient.ConfigMapInterface, prefix string, view View) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	var errs []error
	for i := range RecordConfigMaps {
		var data []byte
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			read, err := ReadRecords(ctx, client, RecordName(prefix, i))
			if data = read; apierrors.IsForbidden(err) {
				return false, err
			}
			return err == nil, nil
		})
		records, unreadable := record.DecodeRecords(data)
		l.Seed(records, view.Snapshot().StoredSlices(), time.Now())
		if err = errors.Join(err, unreadable); err != nil {
			errs = append(errs, fmt.Errorf("ConfigMap %s: %w", RecordName(prefix, i), err))
		}
	}
	return errors.Join(errs...)
}
