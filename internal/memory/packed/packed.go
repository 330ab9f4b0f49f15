// Package packed keeps lines of text compressed, within a number of bytes: for what our
// controllers store in ConfigMaps.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Lines returns as many lines as fit into limit bytes, compressed, from the first on, and how
// many these are. Equal lines have equal bytes; no lines have none.
func Lines(lines [][]byte, limit int) (data []byte, fit int, err error) {
	low, high := 0, len(lines) // so many fit, and so many are tried
	for try := high; low < high; try = (low + high + 1) / 2 {
		packed, err := pack(lines[:try])
		switch {
		case err != nil:
			return nil, 0, err
		case len(packed) <= limit:
			data, low = packed, try
		default:
			high = try - 1
		}
	}
	return data, low, nil
}

func pack(lines [][]byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for _, line := range lines {
		if _, err := w.Write(line); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte{'\n'}); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

// Text returns the text that [Lines] has compressed. More than most bytes are an error, before
// they are in memory.
func Text(data []byte, most int) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("are larger than %d bytes", most)
	}
	return text, err
}
