package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// decode reads one JSON value, numbers as json.Number, and says which keys stand twice
// in one object. in is the place of the value.
func decode(in *field.Path, text []byte) (value any, duplicates [][]string, err error) {
	// It bounds the depth, too.
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, nil, err
	}
	d := &decoder{json: json.NewDecoder(bytes.NewReader(text))}
	d.json.UseNumber()
	value, err = d.value(nil, in)
	return value, d.duplicates, err
}

type decoder struct {
	json       *json.Decoder
	duplicates [][]string
}

// A numberError is about a number that is not computed with.
type numberError struct {
	at   *field.Path
	text string
	err  error
}

func (e *numberError) Error() string { return fmt.Sprintf("the number %.40s %v", e.text, e.err) }

func (d *decoder) value(path []string, in *field.Path) (any, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return d.object(path, in)
	case json.Delim('['):
		return d.list(path, in)
	}
	if number, is := token.(json.Number); is {
		// Schemas are checked with exact fractions.
		if err := quantity.Bounded(number.String()); err != nil {
			return nil, &numberError{in, number.String(), err}
		}
	}
	return token, nil
}

func (d *decoder) object(path []string, in *field.Path) (any, error) {
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
		value, err := d.value(at, in.Child(key))
		if err != nil {
			return nil, err
		}
		object[key] = value
	}
	_, err := d.json.Token()
	return object, err
}

func (d *decoder) list(path []string, in *field.Path) (any, error) {
	list := []any{}
	for d.json.More() {
		value, err := d.value(append(path[:len(path):len(path)], strconv.Itoa(len(list))), in.Index(len(list)))
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
