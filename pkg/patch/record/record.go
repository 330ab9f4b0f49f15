package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/memory/packed"
)

// A Record is what is known of devices of one pool, for keeping beyond the end of their
// slices.
type Record struct {
	Driver, Pool string
	// Node is that of the slices, empty for those that name none.
	Node      string
	Originals Originals
}

// recordDevices is how many devices one record has at most, as many as a slice.
const recordDevices = 128

// maxRecords bounds the text of the records of a ConfigMap, in bytes: more than fits into one of the
// slices that are compressed best.
const maxRecords = 32 << 20

// encodedRecord is the form in which a record is stored.
type encodedRecord struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Node   string `json:"node,omitempty"`
	encoded
}

// Lasting returns the entries that outlive the slice: those with a value of ours in force,
// or with one that the driver may still take for its own and that has not been corrected
// yet.
func (l Originals) Lasting() Originals {
	lasting := Originals{}
	for device, said := range l {
		for k, e := range said.Entries {
			if e.InForce() || slices.ContainsFunc(e.Previous, func(f PreviousValue) bool { return f.Until == 0 }) {
				lasting.add(device, k, e)
			}
		}
		if kept, has := lasting[device]; has {
			lasting[device] = Device{View: said.View, Entries: kept.Entries}
		}
	}
	return lasting
}

// Records returns a record in parts that can be stored apart, of some devices each.
func (l Originals) Records(driver, pool, node string) (records []Record) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(l)), recordDevices) {
		r := Record{Driver: driver, Pool: pool, Node: node, Originals: make(Originals, len(names))}
		for _, name := range names {
			r.Originals[name] = l[name]
		}
		records = append(records, r)
	}
	return records
}

// EncodeRecords returns as many records as DecodeRecords reads, and as fit into a number of bytes,
// compressed, and how many were left out: the largest ones. Equal records have equal bytes; none have
// none.
func EncodeRecords(records []Record, limit int) (data []byte, left int, err error) {
	var texts [][]byte
	for _, r := range records {
		e := r.Originals.encoded()
		text, err := json.Marshal(encodedRecord{r.Driver, r.Pool, r.Node, e})
		if err != nil {
			return nil, len(records), fmt.Errorf("record of pool %s of driver %s: %w", r.Pool, r.Driver, err)
		}
		if bounded(text) == nil && e.bounded() == nil {
			texts = append(texts, text)
		}
	}
	slices.SortFunc(texts, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
	data, fit, err := packed.Lines(readable(texts), limit)
	return data, len(records) - fit, err
}

// readable returns as many texts as are read together, from the first on.
func readable(texts [][]byte) [][]byte {
	size := 0
	for i, text := range texts {
		if size += len(text) + 1; size > maxRecords { // each has a line
			return texts[:i]
		}
	}
	return texts
}

// DecodeRecords reads what EncodeRecords has written. An error is about the records that cannot be
// read; the others are returned.
func DecodeRecords(data []byte) (records []Record, err error) {
	text, err := packed.Text(data, maxRecords)
	if err != nil {
		return nil, fmt.Errorf("records of patches: %w", err)
	}
	for line := range bytes.Lines(text) {
		switch r, unreadable := decodeRecord(line); {
		case unreadable == nil:
			records = append(records, r)
		case err == nil: // the first one says enough
			err = unreadable
		}
	}
	return records, err
}

func decodeRecord(text []byte) (Record, error) {
	if err := bounded(text); err != nil {
		return Record{}, err
	}
	var e encodedRecord
	if err := quantity.Unmarshal(text, &e); err != nil {
		return Record{}, fmt.Errorf("records of patches: %w", err)
	}
	originals, err := e.originals()
	return Record{e.Driver, e.Pool, e.Node, originals}, err
}
