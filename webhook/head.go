package webhook

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
)

// head is what an AdmissionReview says before its objects. API servers write it in this
// order, so that it is known before the whole request has arrived.
type head struct {
	apiVersion string
	admissionv1.AdmissionRequest
}

// parseHead reads the head from the beginning of a request. What cannot be read is empty.
func parseHead(data []byte) (h head) {
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	eachField(decoder, func(name string) bool {
		switch name {
		case "apiVersion":
			return json.UnmarshalDecode(decoder, &h.apiVersion) == nil
		case "request":
			eachField(decoder, func(name string) bool { return h.read(decoder, name) })
			return false
		}
		return decoder.SkipValue() == nil
	})
	return h
}

// read reads a field of the request; false at the end of the head.
func (h *head) read(decoder *jsontext.Decoder, name string) bool {
	var into any
	switch name {
	case "uid":
		into = &h.UID
	case "kind":
		into = &h.Kind
	case "resource":
		into = &h.Resource
	case "subResource":
		into = &h.SubResource
	case "namespace":
		into = &h.Namespace
	case "operation":
		into = &h.Operation
	case "userInfo":
		into = &h.UserInfo
	case "object", "oldObject":
		return false
	default:
		return decoder.SkipValue() == nil
	}
	return json.UnmarshalDecode(decoder, into) == nil
}

// eachField calls read for the fields of an object until it returns false.
func eachField(decoder *jsontext.Decoder, read func(name string) bool) {
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil || !read(name.String()) {
			return
		}
	}
}
