package selector

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// maxPattern is the size of the largest regular expression that is compiled, in about the
// instructions of its program.
const maxPattern = 20_000

// A pattern is a compiled regular expression.
type pattern struct {
	compiled *regexp.Regexp
	size     int
}

func usesPatterns(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// hidden keeps cel-go from replacing a call with a constant pattern by one without a bound.
type hidden struct{ interpreter.InterpretableV2 }

// prepare compiles a constant pattern once.
func (c *call) prepare() error {
	if len(c.args) < 2 {
		return nil
	}
	constant, is := c.args[1].(interpreter.InterpretableConst)
	if !is {
		return nil
	}
	c.args = append([]interpreter.InterpretableV2{}, c.args...)
	c.args[1] = hidden{c.args[1]}
	text, is := constant.Value().(types.String)
	if !is {
		return nil
	}
	size := patternSize(string(text))
	if size > maxPattern {
		return ErrTooExpensive
	}
	compiled, err := regexp.Compile(string(text))
	if err != nil {
		return err
	}
	c.pattern = &pattern{compiled, size}
	return nil
}

// matching is the work of a regular expression: each character of the text meets each
// instruction of its program.
func matching(c *call, args []ref.Val, left int) int {
	text, _ := args[0].(types.String)
	if c.pattern != nil {
		return min(times(len(text)+1, c.pattern.size, left), left+1)
	}
	expression, is := args[1].(types.String)
	if !is {
		return 1
	}
	size := patternSize(string(expression))
	if size > maxPattern {
		return left + 1
	}
	return times(len(text)+20, size, left) // it is compiled, too
}

// patternSize returns about how many instructions the program of a regular expression has,
// maxPattern and more if it is not parsed for its length.
func patternSize(expression string) int {
	classes := strings.Count(expression, `\p`) + strings.Count(expression, `\P`)
	if len(expression)+1000*classes > maxPattern {
		return maxPattern + 1
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return len(expression) // the compiler reports the error
	}
	return instructions(parsed)
}

func instructions(re *syntax.Regexp) int {
	total := 2 + len(re.Rune)
	for _, sub := range re.Sub {
		total += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		total = times(max(re.Min, re.Max)+1, total, maxPattern)
	}
	return min(total, maxPattern+1)
}
