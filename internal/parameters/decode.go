package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/dra-steward/dra-steward/internal/quantity"
)

// decode reads one JSON value, numbers as json.Number, and says which keys stand twice
// in one object. Fields that are null are left out.
func decode(text []byte) (value any, duplicates [][]string, err error) {
	if quantity.MayStall(text) {
		return nil, nil, errors.New("a number has too many digits, or too large an exponent")
	}
	// It bounds the depth, too.
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, nil, err
	}
	d := &decoder{json: json.NewDecoder(bytes.NewReader(text))}
	d.json.UseNumber()
	value, err = d.value(nil)
	return value, d.duplicates, err
}

type decoder struct {
	json       *json.Decoder
	duplicates [][]string
}

func (d *decoder) value(path []string) (any, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return d.object(path)
	case json.Delim('['):
		return d.list(path)
	}
	if number, is := token.(json.Number); is {
		if len(number) > maxNumber {
			return nil, fmt.Errorf("a number of %d characters", len(number))
		}
	}
	return token, nil
}

// maxNumber bounds what is computed with exactly, exponents included.
const maxNumber = 64

func (d *decoder) object(path []string) (any, error) {
	object, seen := map[string]any{}, map[string]bool{}
	for d.json.More() {
		token, err := d.json.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		at := append(path[:len(path):len(path)], key)
		if seen[key] {
			d.duplicates = append(d.duplicates, at)
		}
		seen[key] = true
		value, err := d.value(at)
		if err != nil {
			return nil, err
		}
		delete(object, key)
		if value != nil {
			object[key] = value
		}
	}
	_, err := d.json.Token()
	return object, err
}

func (d *decoder) list(path []string) (any, error) {
	list := []any{}
	for d.json.More() {
		value, err := d.value(append(path[:len(path):len(path)], strconv.Itoa(len(list))))
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.json.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return list, err
}
