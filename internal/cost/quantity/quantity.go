// Package quantity bounds the quantities of Kubernetes before they are parsed. Their parser takes
// minutes for "1e-999999999", and for "1e4194967296", since it keeps 32 bits of an exponent; other such
// numbers are parsed soon and take minutes to be compared. The parser cannot be stopped.
package quantity

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Within these bounds a number takes some microseconds. What is smaller than 1e-9 or larger than 1e19 is rounded anyway.
const (
	maxExponentDigits = 3
	maxLength         = 1 << 10
	// MaxMagnitude is the exponent of the first power of ten beyond the bounds. It keeps the exponent within three digits in which Kubernetes writes the number.
	MaxMagnitude = 1000
	// largestSuffix is as many digits as E and Ei stand for.
	largestSuffix = 19
)

// Unreadable is the annotation, of objects in memory only, that says which number of a specification
// cannot be read. The specification is then left out. No API server accepts an annotation of this name.
const Unreadable = "a number cannot be read"

// Parse is [resource.ParseQuantity] for numbers within the bounds. It refuses others.
func Parse(text string) (resource.Quantity, error) {
	if err := Bounded(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Bounded returns an error for a text that takes long as a quantity. A text that is no quantity is not its matter.
func Bounded(text string) error {
	begin := strings.TrimLeft(text, "+-")
	suffix := strings.TrimLeft(begin, "0123456789.")
	if len(begin)-len(suffix) > maxLength {
		return fmt.Errorf("must have at most %d digits", maxLength)
	}
	whole, _, _ := strings.Cut(begin[:len(begin)-len(suffix)], ".")
	magnitude := len(strings.TrimLeft(whole, "0"))
	switch {
	case suffix == "" || suffix == begin:
	case suffix[0]|0x20 == 'e' && len(suffix) > 1 && suffix[1] != 'i':
		exponent := strings.TrimLeft(strings.TrimLeft(suffix[1:], "+-"), "0")
		if rest := strings.TrimLeft(exponent, "0123456789"); rest == "" && len(exponent) > maxExponentDigits {
			return fmt.Errorf("must have an exponent between -%[1]s and %[1]s", strings.Repeat("9", maxExponentDigits))
		}
		if n, err := strconv.Atoi(exponent); err == nil && suffix[1] != '-' {
			magnitude += n
		} else if err == nil {
			magnitude -= n
		}
	case strings.ContainsAny(suffix[:1], "num"):
		magnitude -= 3 * (1 + strings.Index("mun", suffix[:1]))
	default:
		magnitude += largestSuffix
	}
	if magnitude > MaxMagnitude {
		return fmt.Errorf("must be less than 1e%d", MaxMagnitude)
	}
	return nil
}
