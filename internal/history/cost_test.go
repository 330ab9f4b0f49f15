package history_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/history"
)

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestCost: what docs/history.md says of the memory for 5,000 nodes with 8 devices and 36,000 claims, and of records of
// 10,000 devices.
func TestCost(t *testing.T) {
	var memory history.Memory
	var store history.Store
	before := heap()
	device := func(i int) v1alpha1.DeviceName {
		return v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: fmt.Sprintf("node-%04d", i/8), Device: fmt.Sprintf("gpu-%d", i%8)}
	}
	begun := time.Now()
	for round := range 3 {
		for i := range 36_000 {
			uid := fmt.Sprintf("%08d-0000-0000-0000-%012d", round, i)
			h := history.Holder{Namespace: fmt.Sprintf("team-%02d", i%40), Claim: fmt.Sprintf("train-%05d-gpu-%05d", i, round), UID: uid, Pods: []string{fmt.Sprintf("train-%05d-%05d", i, round)}, Owner: "Job/train", Since: at(round)}
			memory.Hold(h, []v1alpha1.DeviceName{device(i)}, at(round))
			if round < 2 {
				memory.Release(uid, at(round+1))
			}
		}
	}
	took := time.Since(begun)
	remembered := heap()
	t.Logf("108,000 holders, 36,000 of now: %.1f MiB, %s each", float64(remembered-before)/(1<<20), took/108_000)
	if remembered-before > 64<<20 {
		t.Errorf("the memory has %d MiB", (remembered-before)>>20)
	}
	for i := range 10_000 {
		store.Observe(history.Observation{Device: device(i), Node: "node", Entries: []history.Entry{taint("example.com/xid=79:NoSchedule", at(3))}, Holders: memory.Holders(device(i)), Previous: memory.Take(device(i))}, at(3))
	}
	recorded := heap()
	begun = time.Now()
	sum := 0
	for _, shard := range store.Changed() {
		data, err := store.Encode(shard)
		if err != nil {
			t.Fatal(err)
		}
		sum += len(data)
	}
	t.Logf("records of 10,000 devices: %.1f MiB, stored in %d KiB, encoded in %s", float64(recorded-remembered)/(1<<20), sum>>10, time.Since(begun))
	if store.Cut().Devices > 0 || sum > 10_000_000 {
		t.Errorf("%d bytes, %v left out", sum, store.Cut())
	}
	runtime.KeepAlive(&memory)
}
