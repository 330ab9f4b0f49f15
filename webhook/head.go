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
	d := headDecoder{jsontext.NewDecoder(bytes.NewBuffer(data))}
	d.fields(func(name string) bool {
		switch name {
		case "apiVersion":
			return readText(d, &h.apiVersion)
		case "request":
			d.fields(func(name string) bool { return h.read(d, name) })
			return false
		}
		return d.SkipValue() == nil
	})
	return h
}

// read reads a field of the request; false at the end of the head.
func (h *head) read(d headDecoder, name string) bool {
	switch name {
	case "uid":
		return readText(d, &h.uid)
	case "resource":
		return d.fields(func(name string) bool {
			switch name {
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
		return d.fields(func(name string) bool {
			if name == "username" {
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
func (d headDecoder) fields(read func(name string) bool) bool {
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil || !read(name.String()) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
}

// readText reads a string or null; false for anything else.
func readText[T ~string](d headDecoder, into *T) bool {
	token, err := d.ReadToken()
	if err != nil || token.Kind() != '"' && token.Kind() != 'n' {
		return false
	}
	if token.Kind() == '"' {
		*into = T(token.String())
	}
	return true
}
