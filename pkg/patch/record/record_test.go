package record_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/memory/packed"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

func text(value string) record.Value {
	return record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To(value)}}
}

// ledgerOf has devices with one attribute each.
func originalsOf(devices int, published func(int) string) record.Originals {
	l := record.Originals{}
	for i := range devices {
		l[fmt.Sprintf("gpu-%03d", i)] = record.Device{View: record.View(i), Entries: map[record.Key]record.Entry{
			{Name: "model"}: {Published: text(published(i)), Written: text("z"), Patch: "p", Previous: []record.PreviousValue{{Value: text("y")}}},
		}}
	}
	return l
}

// TestRecords: what is written is read, in parts of a slice each; what does not fit is left
// out, the largest first, and counted.
func TestRecords(t *testing.T) {
	originals := originalsOf(300, func(i int) string { return fmt.Sprint(i % 3) })
	records := originals.Records("gpu.example.com", "a", "node-1")
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	data, left, err := record.EncodeRecords(records, 1<<20)
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	if again, _, _ := record.EncodeRecords(records, 1<<20); !bytes.Equal(data, again) {
		t.Error("equal records have other bytes")
	}
	read, err := record.DecodeRecords(data)
	if err != nil {
		t.Fatal(err)
	}
	all := record.Originals{}
	for _, r := range read {
		if r.Driver != "gpu.example.com" || r.Pool != "a" || r.Node != "node-1" {
			t.Errorf("a record of %s %s %s", r.Driver, r.Pool, r.Node)
		}
		for device, entries := range r.Originals {
			all[device] = entries
		}
	}
	if !all.Equal(originals) {
		t.Error("another originals is read")
	}

	random := rand.New(rand.NewPCG(1, 2))
	small := originalsOf(1, func(int) string { return "x" }).Records("gpu.example.com", "small", "")
	large := originalsOf(128, func(int) string { return fmt.Sprint(random.Uint64(), random.Uint64()) }).Records("gpu.example.com", "large", "")
	data, left, err = record.EncodeRecords(append(large, small...), 1000)
	if read, _ = record.DecodeRecords(data); err != nil || left != 1 || len(data) > 1000 || len(read) != 1 || read[0].Pool != "small" {
		t.Errorf("%d bytes, %d left, read %v, %v", len(data), left, read, err)
	}
	if data, left, err = record.EncodeRecords(large, 10); data != nil || left != 1 || err != nil {
		t.Errorf("nothing fits: %d bytes, %d left, %v", len(data), left, err)
	}
	if data, left, err = record.EncodeRecords(nil, 10); data != nil || left != 0 || err != nil {
		t.Errorf("no records: %d bytes, %d left, %v", len(data), left, err)
	}
	if _, err := record.DecodeRecords([]byte("else")); err == nil {
		t.Error("what was not written is read")
	}
}

// TestLargeRecords: records that are small only when they are compressed are left out, so that the
// others can be read.
func TestLargeRecords(t *testing.T) {
	large := record.Originals{}
	for i := range resourceapi.ResourceSliceMaxDevices {
		entry := record.Entry{Patch: "p", Published: text(fmt.Sprint(i))}
		for j := range 8 {
			entry.Previous = append(entry.Previous, record.PreviousValue{Value: text(fmt.Sprintf("%d%02000d", j, 0))})
		}
		large[fmt.Sprint("gpu-", i)] = record.Device{Entries: map[record.Key]record.Entry{{Name: "model"}: entry}}
	}
	records := originalsOf(1, func(int) string { return "x" }).Records("gpu.example.com", "small", "")
	for i := range 17 { // 2 MB each
		records = append(records, large.Records("gpu.example.com", fmt.Sprint("large-", i), "")...)
	}
	data, left, err := record.EncodeRecords(records, 960<<10)
	if err != nil || left == 0 {
		t.Errorf("%d left of %d, %v", left, len(records), err)
	}
	if read, err := record.DecodeRecords(data); err != nil || len(read) != len(records)-left || read[0].Pool != "small" {
		t.Errorf("%d read of %d, %v", len(read), len(records)-left, err)
	}
}

// TestUnreadableRecord: one record that cannot be read does not keep the others from being read.
func TestUnreadableRecord(t *testing.T) {
	good := `{"driver":"d","pool":"p","d":["gpu-0"],"g":[{"n":"a","p":"p","d":[0]}]}`
	for name, bad := range map[string]string{
		"other text":  `else`,
		"a long text": `{"driver":"` + strings.Repeat("d", 3000) + `"}`,
		"a quantity":  `{"d":["a"],"g":[{"n":"m","c":true,"o":{"c":{"value":"1e4194967296"}},"d":[0]}]}`,
		"no device":   `{"d":[],"g":[{"d":[0]}]}`,
	} {
		data, _, err := packed.Lines([][]byte{[]byte(bad), []byte(good)}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := record.DecodeRecords(data); err == nil || len(read) != 1 || read[0].Pool != "p" {
			t.Errorf("%s: %d read, %v", name, len(read), err)
		}
	}
}

// TestLasting: a corrected value does not outlive the slice.
func TestLasting(t *testing.T) {
	told := record.Entry{Published: text("x"), Previous: []record.PreviousValue{{Value: text("z"), Until: 5}}}
	waiting := record.Entry{Published: text("x"), Previous: []record.PreviousValue{{Value: text("y")}, {Value: text("z"), Until: 5}}}
	originals := record.Originals{
		"a": {View: 5, Entries: map[record.Key]record.Entry{{Name: "told"}: told, {Name: "waiting"}: waiting}},
		"b": {Entries: map[record.Key]record.Entry{{Name: "told"}: told}},
		"c": {Entries: map[record.Key]record.Entry{{Name: "told"}: {Published: text("x"), Written: text("z"), Patch: "p"}}},
	}
	want := record.Originals{"a": {View: 5, Entries: map[record.Key]record.Entry{{Name: "waiting"}: waiting}}, "c": originals["c"]}
	if got := originals.Lasting(); !got.Equal(want) {
		t.Errorf("%v", got)
	}
}

// FuzzRecords: nothing that is read stops the program, and what can be read is written the
// same again.
func FuzzRecords(f *testing.F) {
	data, _, err := record.EncodeRecords(originalsOf(2, func(int) string { return "x" }).Records("d", "p", ""), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := record.DecodeRecords(data)
		if err != nil {
			return
		}
		again, left, err := record.EncodeRecords(records, 64<<20)
		if err != nil { // what is left has become too long as we write it
			t.Fatal(err)
		}
		if read, err := record.DecodeRecords(again); err != nil || len(read) != len(records)-left {
			t.Fatalf("%d records of %d, %d left, %v", len(read), len(records), left, err)
		}
	})
}

// TestRecordSizes: what docs/patches.md says of the room that records need.
func TestRecordSizes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	full := record.Originals{}
	for i := range resourceapi.ResourceSliceMaxDevices {
		entries := map[record.Key]record.Entry{}
		for j := range resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprintf("attribute_%d", j))}] = record.Entry{
				Published: text(fmt.Sprintf("%016x", random.Uint64())), Written: text(fmt.Sprint("patched ", j)), Patch: "all"}
		}
		full[fmt.Sprintf("gpu-%d", i)] = record.Device{View: record.View(random.Uint64()), Entries: entries}
	}
	var pools []record.Record
	for i := range 1000 {
		pool := record.Originals{}
		for j := range 8 {
			pool[fmt.Sprintf("gpu-%d", j)] = record.Device{View: record.View(random.Uint64()), Entries: map[record.Key]record.Entry{{Name: "model"}: {Published: text("A100"), Written: text("A100X"), Patch: "model"}}}
		}
		pools = append(pools, pool.Records("gpu.example.com", fmt.Sprintf("node-%04d", i), fmt.Sprintf("node-%04d", i))...)
	}
	for what, tt := range map[string]struct {
		records []record.Record
		most    int
	}{"a full slice": {full.Records("gpu.example.com", "a", ""), 64 << 10}, "1,000 pools": {pools, 96 << 10}} {
		data, left, err := record.EncodeRecords(tt.records, 1<<20)
		if err != nil || left > 0 || len(data) > tt.most {
			t.Errorf("%s: %d bytes, at most %d; %d left, %v", what, len(data), tt.most, left, err)
		}
		t.Logf("%s: %d bytes", what, len(data))
	}
}
