package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep objects and lists may be nested in a document.
const maxDepth = 1000

// maxLists is how deep lists may be items of lists.
const maxLists = 8

// parse yields the documents of one chunk; limit bounds what aliases make of it.
func parse(file string, in chunk, limit int) iter.Seq2[*Document, *Error] {
	return func(yield func(*Document, *Error) bool) {
		if in.refused != nil {
			yield(nil, in.refused)
			return
		}
		src := newSource(in.text, in.line, 1, false)
		if err := checkUTF8(src); err != nil {
			yield(nil, err)
			return
		}
		if text := bytes.TrimLeft(in.text, " \t\r\n"); len(text) > 0 && text[0] == '{' {
			if parseJSON(file, in, yield) {
				return
			}
		}
		raw, err := src.toJSON(limit)
		if err != nil {
			yield(nil, src.unrendered(err))
			return
		}
		if !bytes.Equal(raw, []byte("null")) {
			unfold(&Document{File: file, Line: in.content, Raw: raw, source: src}, yield)
		}
	}
}

// parseJSON yields the JSON values of the chunk. It returns false, and yields
// nothing, if the chunk does not begin with a JSON value: then it may be YAML.
func parseJSON(file string, in chunk, yield func(*Document, *Error) bool) bool {
	decoder := json.NewDecoder(bytes.NewReader(in.text))
	whole := newSource(in.text, in.line, 1, true)
	for first := true; ; first = false {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == io.EOF {
			return true
		}
		if err != nil {
			if first && !strings.HasSuffix(strings.ToLower(file), ".json") {
				return false
			}
			yield(nil, jsonError(whole, decoder.InputOffset(), err))
			return true
		}
		line, column := whole.at(int(decoder.InputOffset()) - len(raw))
		src := newSource(raw, line, column, true)
		if err := src.checkDepth(raw); err != nil {
			if !yield(nil, err) {
				return true
			}
			continue
		}
		if !unfold(&Document{File: file, Line: line, Raw: raw, source: src}, yield) {
			return true
		}
	}
}

// jsonError says where the JSON text is wrong; start is where its value begins.
func jsonError(src *source, start int64, err error) *Error {
	offset, message := len(src.text), "the JSON value is not complete: "+err.Error()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset, message = max(int(start), int(syntax.Offset)-1), "not JSON: "+syntax.Error()
	}
	line, column := src.at(min(offset, len(src.text)))
	return &Error{Line: line, Column: column, Message: message, Err: err}
}

// checkUTF8 finds the first byte that is not part of UTF-8 text.
func checkUTF8(src *source) *Error {
	if utf8.Valid(src.text) {
		return nil
	}
	offset := 0
	for offset < len(src.text) {
		r, size := utf8.DecodeRune(src.text[offset:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		offset += size
	}
	line, column := src.at(offset)
	return &Error{Line: line, Column: column,
		Message: fmt.Sprintf("not UTF-8 text (byte 0x%02x): save the file as UTF-8", src.text[offset])}
}

// unfold fills in what the document says about itself and yields it, or, if it
// is a list, its items.
func unfold(document *Document, yield func(*Document, *Error) bool) bool {
	if isBareList(document.Raw) {
		line, column := document.Position("")
		return yield(nil, &Error{Line: line, Column: column,
			Message: "objects in a bare list, which kubectl does not read: write them as items of an object with apiVersion: v1 and kind: List"})
	}
	fields := rawFields(document.Raw)
	document.APIVersion = rawString(fields["apiVersion"])
	document.Kind = rawString(fields["kind"])
	metadata := rawFields(fields["metadata"])
	document.Namespace = rawString(metadata["namespace"])
	document.Name = rawString(metadata["name"])
	var items []json.RawMessage
	// For kubectl an object of any kind is a list if it has items.
	list := strings.HasSuffix(document.Kind, "List") || document.APIVersion != "" && document.Kind != "" && isBareList(fields["items"])
	if !list || json.Unmarshal(fields["items"], &items) != nil || items == nil {
		return yield(document, nil)
	}
	if len(document.items) == maxLists {
		line, column := document.Position("")
		return yield(nil, &Error{Line: line, Column: column, Message: fmt.Sprintf("more than %d lists in each other", maxLists)})
	}
	if line, column, twice := document.listTwice(); twice {
		return yield(nil, &Error{Line: line, Column: column,
			Message: `duplicate key "items" in the list, of which kubectl reads only the last one: merge them`})
	}
	for i, raw := range items {
		item := &Document{File: document.File, Raw: raw, source: document.source}
		item.items = append(document.items[:len(document.items):len(document.items)], i)
		line, column := item.Position("")
		item.Line = line
		if !strings.HasPrefix(string(raw), "{") {
			if !yield(nil, &Error{Line: line, Column: column, Message: "an item of a list must be an object"}) {
				return false
			}
			continue
		}
		item.Raw = inferType(raw, document)
		if !unfold(item, yield) {
			return false
		}
	}
	return true
}

// isBareList reports whether a document is a list that has an object of an API. Other lists, such as JSON
// patches of kustomize, are no manifests.
func isBareList(raw json.RawMessage) bool {
	var items []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("[")) || json.Unmarshal(raw, &items) != nil {
		return false
	}
	return slices.ContainsFunc(items, func(item json.RawMessage) bool {
		fields := rawFields(item)
		return rawString(fields["apiVersion"]) != "" && rawString(fields["kind"]) != ""
	})
}

// inferType adds to an item of a typed list the type that the list implies, as
// the API server does.
func inferType(raw json.RawMessage, list *Document) json.RawMessage {
	fields := rawFields(raw)
	kind := strings.TrimSuffix(list.Kind, "List")
	var added []string
	if rawString(fields["apiVersion"]) == "" && kind != "" {
		added = append(added, fmt.Sprintf(`"apiVersion":%q`, list.APIVersion))
		delete(fields, "apiVersion")
	}
	if rawString(fields["kind"]) == "" && kind != "" {
		added = append(added, fmt.Sprintf(`"kind":%q`, kind))
		delete(fields, "kind")
	}
	if len(added) == 0 {
		return raw
	}
	body := bytes.TrimLeft(raw[1:], " \t\r\n")
	separator := ","
	if len(body) > 0 && body[0] == '}' {
		separator = ""
	}
	return append([]byte("{"+strings.Join(added, ",")+separator), body...)
}

// rawFields returns the fields of a JSON object, nil for anything else.
func rawFields(raw []byte) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}

// rawString returns the JSON string, "" for anything else.
func rawString(raw []byte) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
