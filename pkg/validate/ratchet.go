package validate

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ratchet divides found into what is worse than before and what is not.
//
// Problems are the same when rule, place and offending value agree; a place is a
// path whose list indexes are ignored, since an item moves when one before it
// goes. A count (an int BadValue) may shrink or stay, never grow. Every old
// problem excuses one new one, the smallest that it still covers.
// See docs/decisions/0001-rules-are-values-and-the-table-ratchets.md.
func ratchet(before, found field.ErrorList) (errs, tolerated field.ErrorList) {
	past := map[problem][]int{}
	for _, err := range before {
		key, size := identify(err)
		at, _ := slices.BinarySearch(past[key], size)
		past[key] = slices.Insert(past[key], at, size)
	}
	for _, err := range found {
		key, size := identify(err)
		at, _ := slices.BinarySearch(past[key], size)
		if at == len(past[key]) {
			errs = append(errs, err)
			continue
		}
		past[key] = slices.Delete(past[key], at, at+1)
		tolerated = append(tolerated, err)
	}
	return errs, tolerated
}

// problem is what makes two errors the same problem.
type problem struct {
	rule, place, value string
	kind               field.ErrorType
}

// identify returns what err is about and, for a count, how large it is.
func identify(err *field.Error) (problem, int) {
	p := problem{rule: err.Origin, place: listIndex.ReplaceAllString(err.Field, "[]"), kind: err.Type}
	if size, counts := err.BadValue.(int); counts {
		return p, size
	}
	p.value = fmt.Sprint(err.BadValue)
	return p, 0
}

var listIndex = regexp.MustCompile(`\[\d+\]`)
