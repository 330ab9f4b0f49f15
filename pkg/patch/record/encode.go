package record

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// The encodings, by how a text begins: JSON, and JSON that is compressed and in base64. So
// much is not compressed, for it takes longer than all the rest, and people may read it.
const (
	plainPrefix   = "{"
	packedPrefix  = "flate:"
	maxPlainBytes = 4 << 10
)

// maxDecoded bounds what is read of a record: several times the largest slice.
const maxDecoded = 8 << 20

// What a record has at most: several times what we write for a full slice of 128 devices with 32
// values each. Without these bounds, a few KB of JSON become gigabytes of memory.
const (
	maxEntries = 16 << 10
	maxCommas  = 128 << 10
	// maxString is several times the longest text of a slice or patch, which is a name of 253 bytes.
	maxString = 2 << 10
)

// bounded refuses the text of a record that would need much memory as values. In JSON, each value
// but the first of an object or list has a comma before it.
func bounded(text []byte) error {
	n, quoted, begin := 0, false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if quoted && i-begin-1 > maxString {
				return fmt.Errorf("originals of patches: has a text of %d bytes, of at most %d", i-begin-1, maxString)
			}
			quoted, begin = !quoted, i
		case quoted && c == '\\':
			i++
		case !quoted && c == ',':
			n++
		}
	}
	if n > maxCommas {
		return fmt.Errorf("originals of patches: has %d values, of at most %d", n, maxCommas)
	}
	return nil
}

// encoded is the form in which a record is stored: what is equal of several devices once.
type encoded struct {
	Devices []string `json:"d"`
	// Views are those of the devices, in their order.
	Views []View `json:"s,omitempty"`
	// Until are those of devices without entries, by their numbers in the list.
	Until  map[int]int64 `json:"u,omitempty"`
	Groups []group       `json:"g"`
}

type group struct {
	Name      resourceapi.QualifiedName `json:"n"`
	Capacity  bool                      `json:"c,omitempty"`
	Patch     string                    `json:"p,omitempty"`
	Published *Value                    `json:"o,omitempty"`
	Written   *Value                    `json:"w,omitempty"`
	Previous  []encodedPrevious         `json:"f,omitempty"`
	// Devices are those that all of it is about, as their numbers in the list.
	Devices []int `json:"d"`
}

type encodedPrevious struct {
	Value Value `json:"v"`
	Until int64 `json:"t,omitempty"`
}

// Encode returns the text of a record, "" for an empty one. Equal records have equal texts.
func (l Originals) Encode() (string, error) {
	if len(l) == 0 {
		return "", nil
	}
	e := l.encoded()
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("originals of patches: %w", err)
	}
	if err := errors.Join(bounded(text), e.bounded()); err != nil { // Decode would refuse it
		return "", err
	}
	if len(text) <= maxPlainBytes {
		return string(text), nil
	}
	var packed bytes.Buffer
	packed.WriteString(packedPrefix)
	base := base64.NewEncoder(base64.StdEncoding, &packed)
	flater, err := flate.NewWriter(base, flate.DefaultCompression)
	if err != nil {
		return "", err
	}
	if _, err := flater.Write(text); err != nil {
		return "", err
	}
	if err := errors.Join(flater.Close(), base.Close()); err != nil {
		return "", err
	}
	return packed.String(), nil
}

func (l Originals) encoded() encoded {
	e := encoded{Devices: slices.Sorted(maps.Keys(l))}
	alike := map[string]int{}
	for i, device := range e.Devices {
		e.Views = append(e.Views, l[device].View)
		if until := l[device].Until; until != 0 {
			if e.Until == nil {
				e.Until = map[int]int64{}
			}
			e.Until[i] = until
		}
		for k, entry := range l[device].Entries {
			g := groupOf(k, entry)
			is := g.identity()
			at, known := alike[is]
			if !known {
				at = len(e.Groups)
				alike[is] = at
				e.Groups = append(e.Groups, g)
			}
			e.Groups[at].Devices = append(e.Groups[at].Devices, i)
		}
	}
	slices.SortFunc(e.Groups, func(a, b group) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), slices.Compare(a.Devices, b.Devices), strings.Compare(a.identity(), b.identity()))
	})
	return e
}

func groupOf(k Key, e Entry) group {
	g := group{Name: k.Name, Capacity: k.Capacity, Patch: e.Patch}
	if !e.Published.absent() {
		g.Published = &e.Published
	}
	if !e.Written.absent() {
		g.Written = &e.Written
	}
	for _, f := range e.Previous {
		g.Previous = append(g.Previous, encodedPrevious(f))
	}
	return g
}

// identity is equal for groups that differ in their devices only.
func (g group) identity() string {
	g.Devices = nil
	text, err := json.Marshal(g)
	if err != nil {
		return fmt.Sprintf("%s: %v", g.Name, err) // Encode says it
	}
	return string(text)
}

// Decode reads what Encode has written; "" is an empty record.
func Decode(text string) (Originals, error) {
	if text == "" {
		return nil, nil
	}
	data := []byte(text)
	if !strings.HasPrefix(text, plainPrefix) {
		unpacked, err := unpack(text)
		if err != nil {
			return nil, fmt.Errorf("originals of patches: %w", err)
		}
		data = unpacked
	}
	if err := bounded(data); err != nil {
		return nil, err
	}
	var e encoded
	if err := quantity.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("originals of patches: %w", err)
	}
	return e.originals()
}

// unpack is bounded: a short text may expand to a very long one.
func unpack(text string) ([]byte, error) {
	packed, known := strings.CutPrefix(text, packedPrefix)
	if !known {
		return nil, fmt.Errorf("must begin with %q or %q: a newer version or another program has written it", plainPrefix, packedPrefix)
	}
	unpacked := flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	data, err := io.ReadAll(io.LimitReader(unpacked, maxDecoded+1))
	if err == nil && len(data) > maxDecoded {
		err = fmt.Errorf("is larger than %d bytes", maxDecoded)
	}
	return data, err
}

// bounded refuses a record that would need much memory as entries, since each of those has a copy
// of the previous values.
func (e encoded) bounded() error {
	entries := 0
	for _, g := range e.Groups {
		if n := len(g.Previous); n > maxPrevious {
			return fmt.Errorf("originals of patches: %s has %d previous values, of at most %d", g.Name, n, maxPrevious)
		}
		entries += len(g.Devices)
	}
	if entries > maxEntries {
		return fmt.Errorf("originals of patches: has %d attributes and capacities of devices, of at most %d", entries, maxEntries)
	}
	return nil
}

func (e encoded) originals() (Originals, error) {
	if err := e.bounded(); err != nil {
		return nil, err
	}
	if len(e.Views) > 0 && len(e.Views) != len(e.Devices) {
		return nil, fmt.Errorf("originals of patches: has %d views of %d devices", len(e.Views), len(e.Devices))
	}
	l := Originals{}
	for _, g := range e.Groups {
		entry := Entry{Patch: g.Patch}
		if g.Published != nil {
			entry.Published = *g.Published
		}
		if g.Written != nil {
			entry.Written = *g.Written
		}
		for _, f := range g.Previous {
			entry.Previous = append(entry.Previous, PreviousValue(f))
		}
		if !entry.fits(g.Capacity) {
			return nil, fmt.Errorf("originals of patches: %s has a value of another kind", g.Name)
		}
		for _, i := range g.Devices {
			if i < 0 || i >= len(e.Devices) {
				return nil, fmt.Errorf("originals of patches: there is no device %d", i)
			}
			l.add(e.Devices[i], Key{g.Name, g.Capacity}, entry)
		}
	}
	for i, view := range e.Views {
		said := l[e.Devices[i]]
		said.View, said.Until = view, e.Until[i]
		if len(said.Entries) > 0 || said.Until != 0 || e.Devices[i] == whole {
			l[e.Devices[i]] = said
		}
	}
	return l, nil
}

// fits reports whether all values of an entry are capacities, or none.
func (e Entry) fits(capacity bool) bool {
	fits := func(v Value) bool {
		return v.absent() || capacity == (v.Capacity != nil) && capacity != (v.Attribute != nil)
	}
	return fits(e.Published) && fits(e.Written) && !slices.ContainsFunc(e.Previous, func(f PreviousValue) bool { return !fits(f.Value) })
}
