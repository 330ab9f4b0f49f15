package materialize_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// recorded is a slice of a node with a record of its devices.
func recorded(t *testing.T, pool, node string, devices int, entries func(device int) map[record.Key]record.Entry) *resourceapi.ResourceSlice {
	t.Helper()
	s := slice(pool, pool, devices, 0)
	s.Spec.AllNodes, s.Spec.NodeName = nil, &node
	originals := record.Originals{}
	for i := range s.Spec.Devices {
		originals[s.Spec.Devices[i].Name] = record.Device{Entries: entries(i)}
	}
	text, err := originals.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return record.With(s, text)
}

// forged has as many entries as are read, all of which count for a device without attributes.
func forged(t *testing.T) *resourceapi.ResourceSlice {
	entry := record.Entry{Patch: "p"}
	for i := range int64(8) {
		entry.Previous = append(entry.Previous, record.PreviousValue{Value: record.Value{Attribute: &resourceapi.DeviceAttribute{IntValue: ptr.To(i)}}})
	}
	entries := map[record.Key]record.Entry{}
	for i := range 128 {
		entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprint("x", i))}] = entry
	}
	return recorded(t, "forged", "own", resourceapi.ResourceSliceMaxDevices, func(int) map[record.Key]record.Entry { return entries })
}

// TestMemoryOfPools: slices with forged records cost little memory, whether they stay or go, and take
// no room from other nodes.
func TestMemoryOfPools(t *testing.T) {
	for name, tt := range map[string]struct {
		pools int
		node  func(pool int) string
		most  int64
	}{
		"of one node":   {50, func(int) string { return "own" }, 16 << 20},
		"of many nodes": {100, func(pool int) string { return fmt.Sprint("node-", pool) }, 144 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "of one node" {
				t.Skip("merges 100 pools with forged records, which takes seconds; make test and .ci/run run it")
			}
			pools, now, before := &slicemerge.PoolOriginals{}, time.Now(), heap()
			merged := slicemerge.NewMerger(slicemerge.None, slicemerge.Patches{}, pools, nil, logr.Discard()).Merge(context.Background(), forged(t), nil, now, accept)
			if merged.Refused != nil {
				t.Fatalf("the driver cannot publish: %v", merged.Refused)
			}
			for i := range tt.pools {
				s := merged.Slice.DeepCopy()
				s.Spec.Pool.Name, s.Spec.NodeName = fmt.Sprint("pool-", i), ptr.To(tt.node(i))
				pools.Learn(s, now)
			}
			if retained := heap() - before; retained > tt.most {
				t.Errorf("%d MiB are retained, want at most %d", retained>>20, tt.most>>20)
			}
			runtime.KeepAlive(pools)
			if name != "of one node" {
				return
			}
			honest := merging(nil, rackPatch("p", "r1", "")).Merge(context.Background(), own(slice("s", "a", 1, 1), "own"), nil, now, accept).Slice
			honest.Spec.AllNodes, honest.Spec.NodeName = nil, ptr.To("other")
			if pools.Learn(honest, now); len(pools.Of(slicemerge.PoolOf(honest))) == 0 {
				t.Error("a pool of another node is forgotten")
			}
		})
	}
}

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestRoomForPools: two slices of one node are remembered that have as many values as slices may have,
// each of another text, all of which patches remove for as many others. So are 10,000 pools of 8 devices
// with 8 patched values each.
func TestRoomForPools(t *testing.T) {
	now, pools := time.Now(), &slicemerge.PoolOriginals{}
	text := func(format string, values ...any) record.Value {
		return record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf(format, values...))}}
	}
	for _, pool := range []string{"a", "b"} {
		pools.Learn(recorded(t, pool, "node", resourceapi.ResourceSliceMaxDevices, func(device int) map[record.Key]record.Entry {
			entries := map[record.Key]record.Entry{}
			for i := range resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
				entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprint("removed_", i))}] = record.Entry{Patch: "p", Published: text("%064d", 32*device+i)}
				entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprint("added_", i))}] = record.Entry{Patch: "p", Written: text("%d", i)}
			}
			return entries
		}), now)
	}
	small := recorded(t, "small", "", 8, func(int) map[record.Key]record.Entry {
		entries := map[record.Key]record.Entry{}
		for i := range 8 {
			entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprint("added_", i))}] = record.Entry{Patch: "p", Written: text("%d", i)}
		}
		return entries
	})
	nodes := 10_000
	if testing.Short() {
		nodes = 100
	}
	for i := range nodes {
		small.Spec.NodeName = ptr.To(fmt.Sprint("node-", i))
		pools.Learn(small, now)
	}
	for _, pool := range []slicemerge.Pool{{Driver: small.Spec.Driver, Name: "a", Node: "node"}, {Driver: small.Spec.Driver, Name: "b", Node: "node"}, slicemerge.PoolOf(small)} {
		if len(pools.Of(pool)) == 0 {
			t.Errorf("pool %s is not remembered", pool.Name)
		}
	}
}
