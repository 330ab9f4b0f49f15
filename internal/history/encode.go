package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/memory/packed"
)

const (
	// ShardBytes is the size of a stored shard, compressed: all together have 10 MB, and each fits into a
	// ConfigMap.
	ShardBytes = 1_000_000
	// maxShardText is the size of a shard in memory and as JSON.
	maxShardText = 4 << 20
	// format is the version of what is written.
	format = 1
)

// A header is the first line of a stored shard.
type header struct {
	Format int       `json:"format"`
	Since  time.Time `json:"since,omitzero"`
	Cut    Cut       `json:"cut,omitzero"`
}

// Changed returns the shards that have changed since they were encoded.
func (s *Store) Changed() (shards []int) {
	for i := range s.shards {
		if s.shards[i].changed {
			shards = append(shards, i)
		}
	}
	return shards
}

// Change makes a shard one that has changed.
func (s *Store) Change(shard int) { s.shards[shard].changed = true }

// Encode returns a shard as it is stored, in at most [ShardBytes]. Records for which there is no room are left
// out, in the store, too.
func (s *Store) Encode(shard int) ([]byte, error) {
	part := &s.shards[shard]
	s.shrink(part, maxShardText)
	for {
		ranked := part.ranked()
		lines := make([][]byte, 1, len(ranked)+1)
		var err error
		if lines[0], err = line(header{format, s.Since, part.cut}); err != nil {
			return nil, err
		}
		for _, r := range ranked {
			text, err := line(r)
			if err != nil {
				return nil, fmt.Errorf("history of device %s: %w", r.DeviceName, err)
			}
			lines = append(lines, text)
		}
		data, _, err := packed.Lines(lines, math.MaxInt)
		switch {
		case err != nil:
			return nil, err
		case len(data) <= ShardBytes:
			part.changed = false
			return data, nil
		case len(ranked) == 0:
			return nil, fmt.Errorf("history: the header alone has %d bytes", len(data))
		}
		s.shrink(part, int(float64(part.size)*ShardBytes/float64(len(data))))
	}
}

func line(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Decode adds a stored shard to a store. What has no place in the shard is passed over, and what ended long
// before now, if now is not the zero time.
func (s *Store) Decode(shard int, data []byte, now time.Time) error {
	text, err := packed.Text(data, 2*maxShardText)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if len(text) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	var h header
	if err := decoder.Decode(&h); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if h.Format != format {
		return fmt.Errorf("history: has the format %d, must be %d: another version of dra-steward has written it", h.Format, format)
	}
	read := &Store{Since: moment(h.Since, now)}
	part := &read.shards[shard]
	part.cut = Cut{max(0, h.Cut.Devices), moment(h.Cut.Until, now)}
	part.records = map[v1alpha1.DeviceName]*Record{}
	for {
		r := &Record{}
		if err := decoder.Decode(r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		r.clean(now)
		if lives, _ := r.expire(now); lives && r.Driver != "" && r.Pool != "" && r.Device != "" && ShardOf(r.DeviceName) == shard && part.records[r.DeviceName] == nil {
			part.records[r.DeviceName] = r
			part.size += r.size()
		}
	}
	s.Merge(read, now)
	return nil
}

// Of returns the record of a device, nil if there is none.
func (s *Store) Of(device v1alpha1.DeviceName) *Record {
	return s.shards[ShardOf(device)].records[device]
}

// HeldBy returns the devices that a claim or a pod has or had, by the names in the records.
func (s *Store) HeldBy(namespace, claim, pod string) (devices []v1alpha1.DeviceName) {
	for r := range s.Records {
		if slices.ContainsFunc(r.Holders, func(h Holder) bool {
			return h.Namespace == namespace && (claim != "" && h.Claim == claim || pod != "" && slices.Contains(h.Pods, pod))
		}) {
			devices = append(devices, r.DeviceName)
		}
	}
	return devices
}
