// Package quantity recognises numbers that the parser of Kubernetes quantities needs
// minutes for: "1e-999999999", and rows of many thousand digits. Code that
// decodes input of others looks for them first.
package quantity

import "bytes"

// Numbers within these bounds take a millisecond or two.
const (
	maxExponentDigits = 4
	maxLength         = 8 << 10
)

// Unreadable is the annotation, of objects in memory only, that says which number of a specification
// cannot be read. The specification is then left out. No API server accepts an annotation of this name.
const Unreadable = "a number cannot be read"

// MayStall reports whether JSON text has a number, quoted or not, whose exponent or
// length is beyond the bounds. Whether the number stands where a quantity belongs
// it does not know.
func MayStall(text []byte) bool {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '-')
		if next < 0 {
			break
		}
		at += next + 1 // just behind the sign
		if at > 1 && (text[at-2]|0x20) == 'e' && endsNumber(text[:at-2]) && startsExponent(text[at:]) {
			return true
		}
	}
	for i := 0; i < len(text); i += maxLength / 2 {
		if digitsAround(text, i) > maxLength {
			return true
		}
	}
	return false
}

// endsNumber reports whether text ends in what can stand before an exponent, back to
// the quote or the delimiter before it.
func endsNumber(text []byte) bool {
	begin := bytes.TrimRight(text, "0123456789.")
	if len(begin) == len(text) {
		return false
	}
	begin = bytes.TrimRight(begin, "+-")
	return len(begin) == 0 || isDelimiter(begin[len(begin)-1])
}

// startsExponent reports whether text starts with an exponent beyond the bound, up to
// the quote or the delimiter behind it.
func startsExponent(text []byte) bool {
	digits := bytes.TrimLeft(text[:min(len(text), maxLength)], "0")
	end := bytes.TrimLeft(digits, "0123456789")
	return len(digits)-len(end) > maxExponentDigits && (len(end) == 0 || isDelimiter(end[0]))
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("\" \t\r\n:,[]{}"), c) >= 0 }

// digitsAround returns the length of the row of digits and dots around i, not much
// more than the bound.
func digitsAround(text []byte, i int) int {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' || c == '.' }
	first, last := i, i
	for first > 0 && isDigit(text[first-1]) && i-first <= maxLength {
		first--
	}
	for last < len(text) && isDigit(text[last]) && last-i <= maxLength {
		last++
	}
	return last - first
}
