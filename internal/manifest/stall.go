package manifest

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dra-steward/dra-steward/internal/quantity"
)

// harmless returns JSON of the document that can be decoded quickly. It returns false and
// the problems where a quantity would stall the decoder.
func harmless(document *Document, object Object) (raw []byte, problems []Problem, ok bool) {
	if !quantity.MayStall(document.Raw) {
		return document.Raw, nil, true
	}
	e := explainer{document: document}
	e.object(object)
	if slices.ContainsFunc(e.problems, Problem.Fatal) {
		return nil, explain(document, object, nil, nil), false
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(document.Raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return document.Raw, nil, true
	}
	raw, err := json.Marshal(value) // without duplicate keys, of which e saw the last ones only
	if err != nil {
		return document.Raw, nil, true
	}
	return raw, nil, true
}
