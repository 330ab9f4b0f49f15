package materialize

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

const (
	// maxRecordBytes leaves room for the rest of a ConfigMap, which has 1 MiB at most.
	maxRecordBytes = 960 << 10
	// recordPause is the least time between two writes of a ConfigMap.
	recordPause = 5 * time.Second
)

// A Recorder writes down what [slicemerge.PoolOriginals] know and a driver may still get wrong, for when no
// process that remembers it runs. One of them works at a time.
type Recorder struct {
	Client coreclient.ConfigMapInterface
	// Prefix is that of the names of the ConfigMaps.
	Prefix        string
	PoolOriginals *slicemerge.PoolOriginals
	View          slicemerge.View
	Metrics       *ResyncMetrics
	Logger        logr.Logger

	shards [slicemerge.RecordConfigMaps]shard
	// parts are those of them that have the parts of a pool.
	parts map[slicemerge.Pool][]int
}

// A shard is one of the ConfigMaps.
type shard struct {
	// stored is what it holds, nil for nothing.
	stored []byte
	due    bool
	// next is when it may be written again.
	next time.Time
	// left are the pools, or parts of them, that have no room.
	left int
}

// Run writes until ctx ends. It begins with what another one has written, and writes nothing
// before it knows that.
func (r *Recorder) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.View.HasSyncedChecker().Done():
	}
	ticker := time.NewTicker(DefaultInterval)
	defer ticker.Stop()
	begun, next := false, time.Time{}
	for {
		now := time.Now()
		if !begun && !now.Before(next) {
			begun, next = r.begin(ctx, now), now.Add(recordPause)
		}
		if begun {
			r.reconcile(ctx, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// begin reads what is stored.
func (r *Recorder) begin(ctx context.Context, now time.Time) bool {
	for i := range r.shards {
		name := slicemerge.RecordName(r.Prefix, i)
		data, err := slicemerge.ReadRecords(ctx, r.Client, name)
		if err != nil {
			r.report(ctx, err, name)
			return false
		}
		records, err := record.DecodeRecords(data)
		if err != nil { // written again
			r.report(ctx, err, name)
		}
		r.shards[i] = shard{stored: data, due: true}
		r.PoolOriginals.Seed(records, r.View.Snapshot().StoredSlices(), now)
	}
	_, known := r.PoolOriginals.Take()
	for pool, originals := range known {
		r.mark(pool, originals)
	}
	return true
}

func (r *Recorder) report(ctx context.Context, err error, name string) {
	if ctx.Err() == nil {
		r.Logger.Error(err, "Cannot record the values of drivers", "configMap", name)
	}
}

// shardOf is the ConfigMap that has a part of a pool.
func shardOf(pool slicemerge.Pool, part int) int {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s/%d", pool.Driver, pool.Name, part)
	return int(h.Sum32() % slicemerge.RecordConfigMaps)
}

// mark notes where a pool that has changed is kept from now on; what is there, and was, is due.
func (r *Recorder) mark(pool slicemerge.Pool, originals record.Originals) {
	before := r.parts[pool]
	if delete(r.parts, pool); r.parts == nil {
		r.parts = map[slicemerge.Pool][]int{}
	}
	var parts []int
	for part := range originals.Lasting().Records(pool.Driver, pool.Name, pool.Node) {
		parts = append(parts, shardOf(pool, part))
	}
	if len(parts) > 0 {
		r.parts[pool] = parts
	}
	for _, at := range slices.Concat(before, parts) {
		r.shards[at].due = true
	}
}

// reconcile writes the ConfigMaps that are due.
func (r *Recorder) reconcile(ctx context.Context, now time.Time) {
	changed, all := r.PoolOriginals.Take()
	for pool := range changed {
		r.mark(pool, all[pool])
	}
	var records [slicemerge.RecordConfigMaps][]record.Record
	due := func(at int) bool { return r.shards[at].due && !now.Before(r.shards[at].next) }
	for pool, parts := range r.parts {
		if !slices.ContainsFunc(parts, due) {
			continue
		}
		for part, record := range all[pool].Lasting().Records(pool.Driver, pool.Name, pool.Node) {
			if at := parts[part]; due(at) {
				records[at] = append(records[at], record)
			}
		}
	}
	left := 0
	for i := range r.shards {
		if due(i) {
			r.shards[i].write(ctx, r, slicemerge.RecordName(r.Prefix, i), records[i], now)
		}
		left += r.shards[i].left
	}
	r.Metrics.unrecorded(left)
}

func (s *shard) write(ctx context.Context, r *Recorder, name string, records []record.Record, now time.Time) {
	data, left, err := record.EncodeRecords(records, maxRecordBytes)
	if err == nil && !bytes.Equal(data, s.stored) {
		s.next = now.Add(recordPause)
		err = r.store(ctx, name, data)
	}
	if err != nil {
		r.report(ctx, err, name)
		return
	}
	if left > s.left {
		r.Logger.Error(nil, "The recorded values of drivers do not fit into the ConfigMaps: they are kept in memory only", "configMap", name, "pools", left)
	}
	s.stored, s.left, s.due = data, left, false
}

// store writes a ConfigMap; one without records goes.
func (r *Recorder) store(ctx context.Context, name string, data []byte) error {
	if data == nil {
		err := r.Client.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels:      map[string]string{"app.kubernetes.io/managed-by": FieldManager},
			Annotations: map[string]string{"dra-steward.io/about": "Original values of devices whose values ResourceSlicePatches have changed in ResourceSlices. Used when the slice does not exist any more."}},
		BinaryData: map[string][]byte{slicemerge.RecordKey: data},
	}
	body, err := json.Marshal(map[string]any{"binaryData": object.BinaryData})
	if err != nil {
		return err
	}
	_, err = r.Client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		_, err = r.Client.Create(ctx, object, metav1.CreateOptions{FieldManager: FieldManager})
	}
	return err
}
