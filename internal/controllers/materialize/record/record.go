package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/internal/packed"
	"github.com/dra-steward/dra-steward/internal/quantity"
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

// maxRecords bounds what is read of records, in bytes: many times what a ConfigMap holds.
const maxRecords = 64 << 20

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

// EncodeRecords returns as many records as fit into a number of bytes, compressed, and how
// many were left out: the largest ones. Equal records have equal bytes; none have none.
func EncodeRecords(records []Record, limit int) (data []byte, left int, err error) {
	var texts [][]byte
	for _, r := range records {
		e := r.Originals.encoded()
		if e.bounded() != nil { // DecodeRecords would refuse it, with all others
			continue
		}
		text, err := json.Marshal(encodedRecord{r.Driver, r.Pool, r.Node, e})
		if err != nil {
			return nil, len(records), fmt.Errorf("record of pool %s of driver %s: %w", r.Pool, r.Driver, err)
		}
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
	data, fit, err := packed.Lines(texts, limit)
	return data, len(records) - fit, err
}

// DecodeRecords reads what EncodeRecords has written.
func DecodeRecords(data []byte) ([]Record, error) {
	text, err := packed.Text(data, maxRecords)
	switch {
	case err != nil:
		return nil, fmt.Errorf("records of patches: %w", err)
	case quantity.MayStall(text):
		return nil, errors.New("records of patches: quantity out of range")
	}
	var records []Record
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var e encodedRecord
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("records of patches: %w", err)
		}
		originals, err := e.originals()
		if err != nil {
			return nil, err
		}
		records = append(records, Record{e.Driver, e.Pool, e.Node, originals})
	}
}
