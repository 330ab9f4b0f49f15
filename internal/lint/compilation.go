package lint

import (
	"regexp"
	"strconv"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// compilerError matches one error in what the CEL compiler prints about an expression.
var compilerError = regexp.MustCompile(`(?m)ERROR: <input>:(\d+):(\d+): (.*)$`)

// compilation reports a finding about an expression that does not compile: every error of
// the compiler at its own place in the file. It reports nothing and returns false for other
// findings, and if the place of an error is not known.
func (j *judgement) compilation(finding review.Finding) bool {
	type place struct{ line, column int }
	var places []place
	found := compilerError.FindAllStringSubmatch(finding.Message, -1)
	for _, match := range found {
		line, lineErr := strconv.Atoi(match[1])
		column, columnErr := strconv.Atoi(match[2])
		if lineErr != nil || columnErr != nil {
			return false
		}
		line, column, ok := j.document.PositionIn(finding.Path, line, column)
		if !ok {
			return false
		}
		places = append(places, place{line, column})
	}
	for i, at := range places {
		one := finding
		one.Message = "the expression does not compile: " + found[i][3]
		j.addAt(at.line, at.column, one)
	}
	return len(places) > 0
}
