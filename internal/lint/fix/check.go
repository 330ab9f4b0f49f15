package fix

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
)

// manyDocuments is how many documents of a file are tried one by one when all changes
// together did not come out right.
const manyDocuments = 64

// A document is one that was read, or could not be.
type document struct {
	read bool
	raw  []byte
}

// certain returns the edits whose result was read again and found right. Documents
// are independent: one that cannot be edited does not stop the others.
func (p *plan) certain() []edit {
	if len(p.edits) == 0 || p.right(p.edits) {
		return p.edits
	}
	byDocument := map[int][]edit{}
	for _, e := range p.edits {
		byDocument[e.document] = append(byDocument[e.document], e)
	}
	var good []edit
	for _, e := range p.edits {
		edits := byDocument[e.document]
		delete(byDocument, e.document)
		if len(p.documents) <= manyDocuments && len(edits) > 0 && p.right(edits) {
			good = append(good, edits...)
		}
	}
	if !p.right(good) {
		good = nil
	}
	for _, e := range p.edits {
		if !slices.ContainsFunc(good, func(g edit) bool { return g.offset == e.offset }) {
			p.result.Left = append(p.result.Left, e.changes...)
		}
	}
	return good
}

// right reports whether the edited text reads as the same documents, each with its defaults
// and nothing else.
func (p *plan) right(edits []edit) bool {
	pointers := map[int][]string{}
	for _, e := range edits {
		pointers[e.document] = append(pointers[e.document], e.pointers...)
	}
	i := 0
	for d, err := range p.reader.Read(p.file, bytes.NewReader(apply(p.text, edits))) {
		if i == len(p.documents) || p.documents[i].read != (err == nil) {
			return false
		}
		if err == nil && !p.documents[i].becomes(d.Raw, pointers[i]) {
			return false
		}
		i++
	}
	return i == len(p.documents)
}

// becomes reports whether raw is the document with Equal where pointers lead.
func (d document) becomes(raw []byte, pointers []string) bool {
	if len(pointers) == 0 {
		return bytes.Equal(d.raw, raw)
	}
	want := tree(d.raw)
	for _, pointer := range pointers {
		parent, key, ok := walk(want, pointer)
		if !ok {
			return false
		}
		parent[key] = "Equal"
	}
	return reflect.DeepEqual(want, tree(raw))
}

// has reports whether there is a value already, even an empty one.
func has(raw []byte, pointer string) bool {
	parent, key, ok := walk(tree(raw), pointer)
	_, there := parent[key]
	return !ok || there
}

func tree(raw []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// walk returns the object that holds what a pointer leads to, and its key there.
// v1beta1 has no field "exactly": there it is passed over.
func walk(value any, pointer string) (parent map[string]any, key string, ok bool) {
	all := steps(pointer)
	for _, step := range all[:len(all)-1] {
		switch container := value.(type) {
		case map[string]any:
			next, there := container[step]
			if !there && step != "exactly" {
				return nil, "", false
			}
			if there {
				value = next
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(container) {
				return nil, "", false
			}
			value = container[i]
		}
	}
	parent, ok = value.(map[string]any)
	return parent, all[len(all)-1], ok
}
