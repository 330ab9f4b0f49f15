package record

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/internal/quantity"
)

// A Record is what is known of devices of one pool, for keeping beyond the end of their
// slices.
type Record struct {
	Driver, Pool string
	Ledger       Ledger
}

// recordDevices is how many devices one record has at most, as many as a slice.
const recordDevices = 128

// maxRecords bounds what is read of records, in bytes: many times what a ConfigMap holds.
const maxRecords = 64 << 20

// encodedRecord is the form in which a record is stored.
type encodedRecord struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	encoded
}

// Lasting returns the entries that outlive the slice: those with a value of ours in force,
// or with one that the driver may still take for its own and that has not been corrected
// yet.
func (l Ledger) Lasting() Ledger {
	lasting := Ledger{}
	for device, said := range l {
		for k, e := range said.Entries {
			if e.InForce() || slices.ContainsFunc(e.Former, func(f Former) bool { return f.Until == 0 }) {
				lasting.add(device, k, e)
			}
		}
		if kept, has := lasting[device]; has {
			lasting[device] = Device{View: said.View, Entries: kept.Entries}
		}
	}
	return lasting
}

// Records returns a ledger in parts that can be stored apart, of some devices each.
func (l Ledger) Records(driver, pool string) (records []Record) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(l)), recordDevices) {
		r := Record{Driver: driver, Pool: pool, Ledger: make(Ledger, len(names))}
		for _, name := range names {
			r.Ledger[name] = l[name]
		}
		records = append(records, r)
	}
	return records
}

// EncodeRecords returns as many records as fit into a number of bytes, compressed, and how
// many were left out: the largest ones. Equal records have equal bytes; none have none.
func EncodeRecords(records []Record, limit int) (data []byte, left int, err error) {
	texts := make([][]byte, len(records))
	for i, r := range records {
		if texts[i], err = json.Marshal(encodedRecord{r.Driver, r.Pool, r.Ledger.encoded()}); err != nil {
			return nil, len(records), fmt.Errorf("record of pool %s of driver %s: %w", r.Pool, r.Driver, err)
		}
	}
	slices.SortFunc(texts, func(a, b []byte) int { return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) })
	low, high := 0, len(texts) // so many fit, and so many are tried
	for try := high; low < high; try = (low + high + 1) / 2 {
		packed, err := packRecords(texts[:try])
		switch {
		case err != nil:
			return nil, len(records), err
		case len(packed) <= limit:
			data, low = packed, try
		default:
			high = try - 1
		}
	}
	return data, len(records) - low, nil
}

func packRecords(texts [][]byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for _, text := range texts {
		if _, err := w.Write(append(text, '\n')); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

// DecodeRecords reads what EncodeRecords has written.
func DecodeRecords(data []byte) ([]Record, error) {
	if len(data) == 0 {
		return nil, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("records of patches: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, maxRecords+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("records of patches: %w", err)
	case len(text) > maxRecords:
		return nil, fmt.Errorf("records of patches: are larger than %d bytes", maxRecords)
	case quantity.MayStall(text):
		return nil, errors.New("records of patches: have a number that no quantity needs")
	}
	var records []Record
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var e encodedRecord
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("records of patches: %w", err)
		}
		ledger, err := e.ledger()
		if err != nil {
			return nil, err
		}
		records = append(records, Record{e.Driver, e.Pool, ledger})
	}
}
