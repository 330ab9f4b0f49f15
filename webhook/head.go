package webhook

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

// head is what an AdmissionReview says before its objects, as far as the bounds depend on
// it. API servers write it in this order, so that it is known before the whole request has
// arrived.
type head struct {
	apiVersion  string
	uid         types.UID
	group       string
	resource    string
	subResource string
	namespace   string
	operation   admissionv1.Operation
	user        string
}

// parseHead reads the head from the beginning of a request. What cannot be read is empty.
func parseHead(data []byte) (h head) {
	d := headDecoder{jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))}
	d.fields(func(name []byte) bool {
		switch string(name) {
		case "apiVersion":
			return readText(d, &h.apiVersion)
		case "request":
			d.fields(func(name []byte) bool { return h.read(d, name) })
			return false
		}
		return d.SkipValue() == nil
	})
	return h
}

// read reads a field of the request; false at the end of the head.
func (h *head) read(d headDecoder, name []byte) bool {
	switch string(name) {
	case "uid":
		return readText(d, &h.uid)
	case "resource":
		return d.fields(func(name []byte) bool {
			switch string(name) {
			case "group":
				return readText(d, &h.group)
			case "resource":
				return readText(d, &h.resource)
			}
			return d.SkipValue() == nil
		})
	case "subResource":
		return readText(d, &h.subResource)
	case "namespace":
		return readText(d, &h.namespace)
	case "operation":
		return readText(d, &h.operation)
	case "userInfo":
		return d.fields(func(name []byte) bool {
			if string(name) == "username" {
				return readText(d, &h.user)
			}
			return d.SkipValue() == nil
		})
	case "object", "oldObject":
		return false
	}
	return d.SkipValue() == nil
}

type headDecoder struct{ *jsontext.Decoder }

// fields calls read for the fields of an object until it returns false. It returns whether
// the whole object was read.
func (d headDecoder) fields(read func(name []byte) bool) bool {
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil || !read(unquoted(name)) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
}

// readText reads a string or null; false for anything else.
func readText[T ~string](d headDecoder, into *T) bool {
	value, err := d.ReadValue()
	if err != nil || value.Kind() != '"' && value.Kind() != 'n' {
		return false
	}
	if value.Kind() == '"' {
		*into = T(unquoted(value))
	}
	return true
}

// unquoted returns a JSON string without its quotes. It copies only what has escapes.
func unquoted(value jsontext.Value) []byte {
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, _ := jsontext.AppendUnquote(nil, value) // the decoder has checked it
	return text
}
