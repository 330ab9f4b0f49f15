package parameters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dra-steward/dra-steward/internal/quantity"
)

// decode reads one JSON value, numbers as json.Number, and says which keys stand twice
// in one object. Fields that are null are left out.
func decode(text []byte) (value any, duplicates [][]string, err error) {
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

// A numberError is about a number that is not computed with.
type numberError struct {
	path []string
	text string
	err  error
}

func (e *numberError) Error() string { return fmt.Sprintf("the number %.40s %v", e.text, e.err) }

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
		// Schemas are checked with exact fractions.
		if err := quantity.Bounded(number.String()); err != nil {
			return nil, &numberError{path, number.String(), err}
		}
	}
	return token, nil
}

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

// formats are those of networks and of Kubernetes. Like all formats they say nothing
// about values that are no strings, but for numbers as quantities.
var formats = []jsonschema.Format{
	{Name: "cidr", Validate: text(func(s string) error { _, err := netip.ParsePrefix(s); return err })},
	{Name: "ip", Validate: text(func(s string) error { _, err := netip.ParseAddr(s); return err })},
	{Name: "mac", Validate: text(func(s string) error { _, err := net.ParseMAC(s); return err })},
	{Name: "quantity", Validate: func(value any) error {
		if number, is := value.(json.Number); is {
			value = number.String()
		}
		return text(parseQuantity)(value)
	}},
	{Name: "label-value", Validate: text(func(s string) error {
		if problems := validation.IsValidLabelValue(s); len(problems) > 0 {
			return errors.New(strings.Join(problems, "; "))
		}
		return nil
	})},
}

// wants describes the values of a format.
var wants = map[string]string{
	"cidr": "must be an IP address with the length of its prefix, such as 10.0.0.1/24",
	"ip":   "must be an IP address", "mac": "must be a hardware address, such as 00:11:22:33:44:55",
	"quantity": "must be a quantity, such as 10Gi", "label-value": "must be what a label may have as its value",
}

func text(check func(string) error) func(any) error {
	return func(value any) error {
		if s, is := value.(string); is {
			return check(s)
		}
		return nil
	}
}

func parseQuantity(s string) error {
	_, err := quantity.Parse(s)
	return err
}
