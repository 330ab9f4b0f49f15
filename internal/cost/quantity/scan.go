package quantity

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unmarshal is [json.Unmarshal] for data of others: see [Scan].
func Unmarshal(data []byte, into any) error {
	if err := Scan(data, into); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Scan returns an error, with the field, for JSON that has a number beyond the bounds where the type of into has a
// [resource.Quantity]: its decoder would parse it. What is no JSON it leaves to the decoder.
func Scan(data []byte, into any) error {
	if !suspicious(data) {
		return nil
	}
	w := walker{json.NewDecoder(bytes.NewReader(data))}
	w.json.UseNumber()
	_, err := w.value(reflect.TypeOf(into), nil)
	return err
}

// suspicious reports whether a text or a number is beyond the bounds, wherever it stands. It is fast, since most objects
// have none, and right up to where the text is no JSON.
func suspicious(data []byte) bool {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end := closingQuote(data, i+1)
			if end < len(data) && beyond(data[i:end+1]) {
				return true
			}
			i = end
		case c == '-' || isDigit(c):
			end := i + 1
			for end < len(data) && (isDigit(data[end]) || data[end]|0x20 == 'e' || data[end] == '.' || data[end] == '-' || data[end] == '+') {
				end++
			}
			if end-i > len("1e999") && Bounded(string(data[i:end])) != nil {
				return true
			}
			i = end - 1
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// closingQuote returns where the text ends that begins there.
func closingQuote(data []byte, begin int) int {
	for at := begin; ; at++ {
		next := bytes.IndexByte(data[at:], '"')
		if next < 0 {
			return len(data)
		}
		at += next
		escapes := 0
		for data[at-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// beyond reports whether a quoted text is a number beyond the bounds. Almost all texts begin with a letter.
func beyond(quoted []byte) bool {
	if c := quoted[1] | 0x20; c >= 'a' && c <= 'z' || len(quoted) <= len(`"1e999"`) {
		return false
	}
	text := string(quoted[1 : len(quoted)-1])
	if strings.ContainsRune(text, '\\') && json.Unmarshal(quoted, &text) != nil {
		return false
	}
	return Bounded(strings.TrimSpace(text)) != nil
}

// A walker goes through JSON together with the type that it is decoded into. It reads every key as often as it is there, and in
// any case: so do decoders.
type walker struct{ json *json.Decoder }

// value reads one value. more is false where the JSON ends or is wrong.
func (w walker) value(t reflect.Type, at *field.Path) (more bool, err error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[resource.Quantity]() || t == nil || opaque(t) {
		return w.whole(t, at)
	}
	token, bad := w.json.Token()
	delim, _ := token.(json.Delim)
	for i := 0; delim != 0 && bad == nil && w.json.More(); i++ {
		inner, below := reflect.Type(nil), at.Index(i)
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			inner = t.Elem()
		}
		if delim == '{' {
			key, err := w.json.Token()
			if err != nil {
				return false, nil
			}
			inner, below = fieldOf(t, at, key.(string))
		}
		if more, err := w.value(inner, below); err != nil || !more {
			return false, err
		}
	}
	if delim != 0 && bad == nil {
		_, bad = w.json.Token()
	}
	return bad == nil, nil
}

// whole reads a value that has no quantities below it: one, or none.
func (w walker) whole(t reflect.Type, at *field.Path) (more bool, err error) {
	var raw json.RawMessage
	if w.json.Decode(&raw) != nil {
		return false, nil
	}
	if t == nil || opaque(t) && t != reflect.TypeFor[resource.Quantity]() {
		return true, nil
	}
	text := string(raw)
	if text[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return false, nil
	}
	if beyond := Bounded(strings.TrimSpace(text)); beyond != nil {
		return false, field.Invalid(at, shortened(text), beyond.Error())
	}
	return true, nil
}

func shortened(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// opaque reports whether the decoder does not look into a type: it has none, or it decodes itself.
func opaque(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
	default:
		return true
	}
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldOf returns the type and the place of a key of an object, no type for a field that the type does not have.
func fieldOf(t reflect.Type, at *field.Path, key string) (reflect.Type, *field.Path) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), at.Key(key)
	case reflect.Struct:
	default:
		return nil, at.Child(key)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			if found, below := fieldOf(inner, at, key); found != nil {
				return found, below
			}
		case strings.EqualFold(key, name), name == "" && strings.EqualFold(key, f.Name):
			return f.Type, at.Child(key)
		}
	}
	return nil, at.Child(key)
}
