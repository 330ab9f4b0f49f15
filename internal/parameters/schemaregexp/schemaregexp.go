// Package schemaregexp compiles the regular expressions of JSON schemas up to a size: authors of policies write schemas, and
// a few bytes of a pattern can take gigabytes to compile.
package schemaregexp

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSize is the size of the largest pattern, in instructions of 40 bytes: as many as for ".{0,1000}", and Go repeats nothing
// more often. 32 KiB of text, as much as any caller may have compiled, have room for some hundred patterns.
const maxSize = 2100

// Compile is a [jsonschema.RegexpEngine].
func Compile(pattern string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if n := size(parsed); n > maxSize {
		return nil, fmt.Errorf("pattern %.40q is too large: with its repetitions written out it has a size of %d, at most %d", pattern, n, maxSize)
	}
	return regexp.Compile(pattern)
}

// size is about how many instructions a pattern compiles to.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
