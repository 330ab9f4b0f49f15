// Package natural orders texts as people do: "[2]" is before "[10]".
package natural

import (
	"cmp"
	"strings"
)

// Compare compares numbers in texts by their values, and everything else byte by byte.
func Compare(a, b string) int {
	wholeA, wholeB := a, b
	same := common(a, b)
	a, b = a[same:], b[same:]
	for a != "" && b != "" {
		m, restA := digits(a)
		n, restB := digits(b)
		switch {
		case m != "" && n != "":
			m, n = strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = restA, restB
		case a[0] != b[0]:
			return cmp.Compare(a[0], b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(wholeA, wholeB))
}

// common is the length of the beginning that texts have in common, without a number at its end:
// that may go on.
func common(a, b string) int {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	for same > 0 && '0' <= a[same-1] && a[same-1] <= '9' {
		same--
	}
	return same
}

// digits divides a text after the digits that it begins with.
func digits(text string) (digits, rest string) {
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	return text[:end], text[end:]
}
