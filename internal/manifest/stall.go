package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The parser of quantities takes minutes for "1e-999999999" and time that grows
// with the square of the length for long numbers. Numbers within these bounds
// take less than a millisecond or two.
const (
	maxExponentDigits = 4
	maxNumberLength   = 8 << 10
)

// harmless returns JSON of the document that can be decoded soon. It returns
// false, and problems that say why, if there is none: a quantity would stall
// the decoder.
func harmless(document *Document, object Object) (raw []byte, problems []Problem, ok bool) {
	if !mayStall(document.Raw) {
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

// mayStall reports whether the text has a negative exponent or a row of digits
// beyond the bounds. Most texts that have one are no quantities.
func mayStall(text []byte) bool {
	for rest := text; ; {
		i := bytes.IndexByte(rest, '-')
		if i < 0 {
			break
		}
		if i > 0 && (rest[i-1] == 'e' || rest[i-1] == 'E') {
			digits := bytes.TrimLeft(rest[i+1:min(len(rest), i+1+maxNumberLength)], "0")
			if len(digits)-len(bytes.TrimLeft(digits, "0123456789")) > maxExponentDigits {
				return true
			}
		}
		rest = rest[i+1:]
	}
	for i := 0; i < len(text); i += maxNumberLength / 2 {
		if digitsAround(text, i) > maxNumberLength {
			return true
		}
	}
	return false
}

// digitsAround returns the length of the row of digits and dots around i, not
// much more than the bound.
func digitsAround(text []byte, i int) int {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' || c == '.' }
	first, last := i, i
	for first > 0 && isDigit(text[first-1]) && i-first <= maxNumberLength {
		first--
	}
	for last < len(text) && isDigit(text[last]) && last-i <= maxNumberLength {
		last++
	}
	return last - first
}
